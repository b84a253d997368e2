/** Something that can't be done, with the status that the caller is answered. Doorbuster sends again what is not answered with 2xx. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

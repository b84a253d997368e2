/** What a shop says about its Doorbuster. */
export interface DoorbusterOptions {
  /** Doorbuster under the name that browsers know, without a slash at its end: `https://drops.shop.example`. */
  url: string;
  /** The same as this server reaches it, if that is another address. */
  internalUrl?: string;
  /** The shop's private key, PEM, of the curve P-256. Doorbuster has its public half in `auth.shop_key_file`. */
  shopKey: string;
  /** What `auth.payment_secret_file` of Doorbuster has. */
  paymentSecret: string;
  /** What `secret_file` of Doorbuster's endpoint has (`whsec_...`); two of them while it is changed. */
  webhookSecrets: string[];
  /** Where customers sign in, with `{return}` for the page that they come from. */
  signInUrl: string;
  /** How long a buyer who was handed over stays signed in at Doorbuster. An hour if left out. */
  tokenSeconds?: number;
}

export const DOORBUSTER_OPTIONS = Symbol('DoorbusterOptions');
export const LOG_CONTEXT = 'Doorbuster';

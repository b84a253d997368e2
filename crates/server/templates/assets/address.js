// The fields of an address in a form: kept in this tab until they are sent, and one line once they are filled.

import { parsedOrNull, session } from "./common.js";
import { byId } from "./shop.js";

const NAMES = ["name", "phone", "country", "province", "city", "district", "detail", "post_code"];
const DRAFT_NAME = "doorbuster.draft";
// In one line, as it would stand on a parcel.
const LINE = ["name", "detail", "post_code", "city", "country"];

/** An address in one line, of whichever fields it has. */
export const addressLine = (address) => LINE.map((name) => address[name]?.trim()).filter(Boolean).join(", ");

export class AddressFields {
  /** `button` sends the form. */
  constructor(form, button) {
    this.form = form;
    this.button = button;
    this.fieldset = byId("address");
    this.fields = [...this.fieldset.querySelectorAll("input")];
    this.restore();
    form.addEventListener("input", () => this.keep());
    this.watch();
  }

  values() {
    return Object.fromEntries(NAMES.map((name) => [name, this.form.elements[name].value.trim()]));
  }

  /** It was sent. */
  forget() {
    session.remove(DRAFT_NAME);
  }

  keep() {
    const draft = NAMES.map((name) => [name, this.form.elements[name].value]);
    session.set(DRAFT_NAME, JSON.stringify(Object.fromEntries(draft)));
  }

  restore() {
    const draft = parsedOrNull(session.get(DRAFT_NAME)) ?? {};
    for (const name of NAMES) {
      const field = this.form.elements[name];
      if (!field.value && typeof draft[name] === "string") field.value = draft[name];
    }
  }

  // On a phone the fields would stand between the reader and everything else.
  watch() {
    const fold = () => {
      if (!this.fields.every((field) => field.validity.valid)) return;
      byId("address-text").textContent = addressLine(this.values());
      this.fold(true);
    };
    this.fieldset.addEventListener("focusout", ({ relatedTarget }) => {
      // Not under a press of the button: it would move away from the finger.
      if (relatedTarget && relatedTarget !== this.button && !this.fieldset.contains(relatedTarget)) fold();
    });
    byId("address-change").addEventListener("click", () => {
      this.fold(false);
      this.fields[0].focus();
    });
    // What the browser finds wrong must be seen.
    this.fieldset.addEventListener("invalid", () => this.fold(false), true);
    fold();
  }

  fold(folded) {
    this.fieldset.hidden = folded;
    byId("address-line").hidden = !folded;
  }
}

/** What the plugin keeps in the shop's database. */
import { DeepPartial, VendureEntity } from '@vendure/core';
import { Column, Entity, Index } from 'typeorm';

const asNumber = { to: (value: number) => value, from: (value: number | string) => Number(value) };

/** One row for each order of Doorbuster that the shop has heard of. Its unique id is what makes every step happen once. */
@Entity()
export class DoorbusterOrder extends VendureEntity {
  constructor(input?: DeepPartial<DoorbusterOrder>) {
    super(input);
  }

  @Index({ unique: true })
  @Column({ length: 64 })
  doorbusterId!: string;

  /** The code of its Vendure order; empty until there is one. */
  @Column({ default: '' })
  orderCode!: string;

  /** Of the last event that was carried out. An event that is not above it is known already. */
  @Column({ type: 'bigint', default: 0, transformer: asNumber })
  sequence!: number;

  /** As of that event. */
  @Column({ default: '' })
  status!: string;

  @Column({ type: 'bigint', default: 0, transformer: asNumber })
  amount!: number;
}

/** Something that Doorbuster must hear, sent until it is answered. Written in one transaction with what it reports. */
@Entity()
@Index(['kind', 'reportId'], { unique: true })
export class DoorbusterReport extends VendureEntity {
  constructor(input?: DeepPartial<DoorbusterReport>) {
    super(input);
  }

  @Column({ length: 16 })
  kind!: 'payment' | 'refund';

  /** The payment's or the refund's own id. A payment that goes back whole is refunded under its id. */
  @Column({ length: 255 })
  reportId!: string;

  @Column({ length: 64 })
  doorbusterId!: string;

  @Column({ type: 'bigint', transformer: asNumber })
  amount!: number;

  @Column({ length: 3 })
  currency!: string;

  /** What Doorbuster answered: `paid`, `refund_due`, or why it will never take it. Empty until then. */
  @Index()
  @Column({ default: '' })
  answer!: string;
}

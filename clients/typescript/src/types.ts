/** What a schema says of one entity: `gatewright types --lang ts` writes it. */
export interface EntityTypes {
  record: object;
  create: object;
  update: object;
  /** The relations whose records can be included: the paths of their entities, or the type of accounts. */
  relations: object;
  trash: boolean;
}

/** A schema: entities by their paths. An interface counts, which a mapped type over `string` would refuse. */
export type SchemaOf<S> = { [Path in keyof S]: EntityTypes };

/** Entities of any name and form, for clients without a schema. */
export interface AnySchema {
  [path: string]: {
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    record: { readonly id: string; [key: string]: any };
    create: object;
    update: object;
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    relations: { [key: string]: any };
    trash: true;
  };
}

/** A record as the server answers it: with its entity tag, if the client asks for tags. */
export type Stored<Record> = Record & { readonly _etag?: string };

/** The record at the other end of a relation: of the entity with this path, or an account, whose type it is. */
type Related<S, To> = To extends keyof S
  ? S[To] extends { record: infer Record }
    ? Stored<Record>
    : never
  : To extends { readonly id: string }
    ? To
    : { readonly id: string };

/** A record with the related records that were asked for. One that the caller may not see is null. */
export type Included<S, Relations, Keys extends keyof Relations> = [Keys] extends [never]
  ? unknown
  : { readonly _included: { readonly [Key in Keys]: Related<S, Relations[Key]> | null } };

/** The fields that can be compared and sorted by: all except lists, which a filter looks into. */
type Name<Record> = { [Key in keyof Record & string]: Record[Key] extends readonly unknown[] ? never : Key }[keyof Record & string];

/** Conditions on fields, joined by "and". */
export type Where<Record> = { readonly [Key in Name<Record> as Key | `${Key}_ne`]?: Record[Key] } & {
  readonly [Key in Name<Record> as `${Key}_gt` | `${Key}_gte` | `${Key}_lt` | `${Key}_lte`]?: NonNullable<Record[Key]>;
} & {
  readonly [Key in Name<Record> as `${Key}_in`]?: readonly NonNullable<Record[Key]>[];
} & {
  readonly [Key in Name<Record> as `${Key}_like`]?: string;
} & { readonly [Key in Name<Record> as `${Key}_null`]?: boolean };

/** What of each record an answer shows. */
export interface View<Record, Fields extends keyof Record, Keys extends PropertyKey> {
  /** These fields alone. */
  fields?: readonly Fields[];
  /** Relations whose records are included under `_included`. */
  include?: readonly Keys[];
}

/** Which records, in which order. */
export interface Query<Record, Fields extends keyof Record, Keys extends PropertyKey> extends View<Record, Fields, Keys> {
  where?: Where<Record>;
  /** An expression; build it with {@link filter}, which quotes values. */
  filter?: string;
  /** Text that a searched field contains. */
  q?: string;
  /** Fields in order, with `-` for descending. */
  sort?: SortKey<Record> | readonly SortKey<Record>[];
  /** Records of a page, at most. */
  limit?: number;
  /** Deleted records too, or only those. */
  trashed?: "with" | "only";
}

/** A field, or a path over relations to a field of another record. */
type SortPath<Record> = Name<Record> | `${Name<Record>}.${string}`;
type SortKey<Record> = SortPath<Record> | `-${SortPath<Record>}`;

/** A page by its number. */
export interface Page<Record> {
  readonly records: Record[];
  readonly total: number;
  readonly page: number;
  readonly limit: number;
  readonly hasMore: boolean;
  /** With which to start a stream that misses nothing after this page. */
  readonly eventCursor: string | null;
}

/** The records of a list, and from where a stream misses nothing that they do not show. */
export interface Snapshot<Record> {
  readonly records: Record[];
  readonly eventCursor: string | null;
}

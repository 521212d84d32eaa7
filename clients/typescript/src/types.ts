/** What a schema says of one entity: `gatewright types --lang ts` writes it. */
export interface EntityTypes {
  record: object;
  create: object;
  update: object;
  /**
   * The relations whose records can be included: the paths of their entities, or the type of accounts; in brackets where there are
   * many, and under `back` for those that name the record.
   */
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

/** A record as the server answers it: with its entity tag, if the client asks for tags, and with what a search found in it. */
export type Stored<Record> = Record & { readonly _etag?: string; readonly _highlights?: Highlights };

/** By field, start and end of each word that a search found, in Unicode code points: `[...text].slice(start, end)`. */
export interface Highlights {
  readonly [field: string]: readonly (readonly [start: number, end: number])[];
}

/** Whether a type is `any`, as the relations of clients without a schema are. */
type IsAny<T> = 0 extends 1 & T ? true : false;

/** The entity at the other end of a relation, or the type of accounts. In a schema, brackets are around that of many. */
type End<To> = To extends readonly [infer One] ? One : To extends { back: infer One } ? One : To;

/** A record at the other end of a relation, with those that are included in it. */
type Related<S, To, Rest extends string> = To extends keyof S
  ? S[To] extends { record: infer Record; relations: infer Relations }
    ? Stored<Record> & Included<S, Relations, Rest>
    : never
  : To extends { readonly id: string }
    ? To
    : { readonly id: string };

/** One record, which is null if the caller may not see it; many; or a part of those that name the record. */
type Ending<To, Record> = To extends readonly [unknown]
  ? readonly Record[]
  : To extends { back: unknown; more: infer More extends string }
    ? { readonly data: readonly Record[] } & { readonly [Key in More]: boolean }
    : Record | null;

/** A relation, or a path of up to three: `project`, `project.owner`, `comments(ticket):50.author`. */
export type Path<Relations> = `${keyof Relations & string}${"" | `.${string}` | `:${number}` | `:${number}.${string}`}`;

type Unnumbered<Step> = Step extends `${infer Key}:${string}` ? Key : Step;
type First<P> = P extends `${infer Step}.${string}` ? Unnumbered<Step> : Unnumbered<P>;
type Rest<P, Key> = P extends `${infer Step}.${infer More}` ? (Unnumbered<Step> extends Key ? More : never) : never;

/** A record with the related records that were asked for. */
export type Included<S, Relations, Paths extends string> = [Paths] extends [never]
  ? unknown
  : {
      readonly _included: {
        readonly [Key in First<Paths> & keyof Relations]: IsAny<Relations[Key]> extends true
          ? // eslint-disable-next-line @typescript-eslint/no-explicit-any
            any
          : Ending<Relations[Key], Related<S, End<Relations[Key]>, Rest<Paths, Key>>>;
      };
    };

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
  /** Relations whose records are included under `_included`, and paths of them. */
  include?: readonly Keys[];
}

/** Which records, in which order. */
export interface Query<Record, Fields extends keyof Record, Keys extends PropertyKey> extends View<Record, Fields, Keys> {
  where?: Where<Record>;
  /** An expression; build it with {@link filter}, which quotes values. */
  filter?: string;
  /** Words, `"a phrase"`, `-not` and `or` of a search; without a search index, text that a searched field contains. */
  q?: string;
  /** With `q`: the last word is also the beginning of words. */
  prefix?: boolean;
  /** With `q`: records have {@link Highlights}. */
  highlight?: boolean;
  /** Fields in order, with `-` for descending. */
  sort?: SortKey<Record> | readonly SortKey<Record>[];
  /** Records of a page, at most. */
  limit?: number;
  /** Deleted records too, or only those. */
  trashed?: "with" | "only";
}

/** A field, a path over relations to a field of another record, or the rank of a search. */
type SortPath<Record> = Name<Record> | `${Name<Record>}.${string}` | "_rank";
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

/** How records are grouped, and what is computed of each group. */
export interface GroupQuery<Record> {
  /** Fields, and times as `day(createdAt)`: `hour`, `day`, `week`, `month`, `quarter`, `year`. */
  group: GroupKey<Record> | readonly GroupKey<Record>[];
  sum?: Name<Record> | readonly Name<Record>[];
  min?: Name<Record> | readonly Name<Record>[];
  max?: Name<Record> | readonly Name<Record>[];
  avg?: Name<Record> | readonly Name<Record>[];
  countDistinct?: Name<Record> | readonly Name<Record>[];
  where?: Where<Record>;
  filter?: string;
  q?: string;
  /** An IANA name, such as `Europe/Berlin`, for the times that are grouped. */
  timezone?: string;
  /** Such as `+02:00`, in place of `timezone`. */
  utcOffset?: string;
}

type GroupKey<Record> = Name<Record> | `${"hour" | "day" | "week" | "month" | "quarter" | "year"}(${string})`;

/** A group: its keys as they were asked for, how many records it has, and what was computed. */
export interface Group {
  readonly count: number;
  readonly sum?: { readonly [field: string]: number | string | null };
  readonly min?: { readonly [field: string]: number | string | null };
  readonly max?: { readonly [field: string]: number | string | null };
  readonly avg?: { readonly [field: string]: number | string | null };
  readonly countDistinct?: { readonly [field: string]: number };
  readonly [key: string]: unknown;
}

export interface Groups {
  readonly data: readonly Group[];
  readonly hasMore: boolean;
}

/** A body in which the id of a relation may be the record of an earlier operation. */
type Referring<Body> = { [Key in keyof Body]: Body[Key] | { readonly $ref: string } };

/** One write of a batch over several entities. `as` names its record for later operations. */
export type Operation<S extends SchemaOf<S>> = {
  [Path in keyof S & string]:
    | { op: "create"; entity: Path; data: Referring<S[Path]["create"]>; as?: string }
    | { op: "update"; entity: Path; id: string | { readonly $ref: string }; data: Referring<S[Path]["update"]>; ifMatch?: string }
    | { op: "delete"; entity: Path; id: string | { readonly $ref: string }; ifMatch?: string }
    | {
        op: "upsert";
        entity: Path;
        on: readonly (keyof S[Path]["create"] & string)[];
        data: Referring<S[Path]["create"]>;
        resolution?: "update" | "ignore";
        as?: string;
      };
}[keyof S & string];

/** What came of one write of a batch. */
export interface Result {
  readonly index: number;
  readonly entity: string;
  /** The record; of a deleted one, its id. */
  readonly data: { readonly id: string; readonly [key: string]: unknown };
}

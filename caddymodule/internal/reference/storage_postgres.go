package reference

// Postgres is the storage engine on a database.
var Postgres = Block{
	Head: "storage postgres <url>", Open: "storage postgres {env.DATABASE_URL}", Bare: true, Around: "encryption_key {env.GATEHOUSE_KEY}",
	Text: "Records in a PostgreSQL database, version 13 or later. Its tables are made at the first start. A write is durable once it is answered. " +
		"The URL is of the form `postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full&sslrootcert=FILE`; several hosts are separated by commas, and the one that takes writes is used. " +
		"Without `sslmode` it is `verify-full`, unless each host is this machine. " +
		"`encryption_key` is required with this storage. [postgres.md](postgres.md) says what the database must be like.",
	Options: []Option{
		{
			Word: "direct_url", Arguments: "<url>", Default: "the URL", Example: "direct_url {env.DATABASE_DIRECT_URL}",
			Text: "The URL of the same database without the pooler, such as PgBouncer, that the URL leads to. On it the server hears what the other nodes write, which a pooler does not pass on.",
		},
		{
			Word: "schema", Arguments: "<name>", Default: "the first of the user's search path", Example: "schema gatehouse",
			Text: "The schema of the tables. It is made if it is missing.",
		},
		{
			Word: "cluster", Arguments: "<name>", Default: "`gatehouse`", Example: "cluster production",
			Text: "The name that is written into the database at its first start. A database of another name is refused, so a wrong URL does no harm.",
		},
		{
			Word: "pool", Arguments: "<number>", Default: "`16`", Example: "pool 32",
			Text: "How many connections read at the same time. One more writes.",
		},
		{
			Word: "durability", Arguments: "on|local", Default: "`on`", Example: "durability local",
			Text: "What a write waits for. `on`: the disk of the server and each standby that it names as synchronous. `local`: the disk of the server alone; a standby that is promoted can then lack what was answered.",
		},
	},
}

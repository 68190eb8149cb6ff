package reference

// Badger is the storage engine in a directory.
var Badger = Block{
	Head: "storage badger [<directory>]", Open: "storage badger /var/lib/gatehouse", Bare: true,
	Text: "Records in a directory of this machine, which is created with mode 0700. A write is durable once it is answered. One process at a time can use it. " +
		"Default of the directory: `gatehouse` in Caddy's data directory.",
	Options: []Option{{
		Word: "min_free", Arguments: "<size>", Default: "`128MiB`", Example: "min_free 512MiB",
		Text: "The free space below which nothing is written and requests that write are answered 503, because a full disk would end the process. Half as much again is set aside in a file of the directory.",
	}},
}

package reference

// Outbound is about requests of the server.
var Outbound = Block{
	Head: "outbound",
	Text: "Addresses that stand in the Caddyfile are connected to as written. All others, such as those of the configuration API, of metadata and of clients, must be public ones.",
	Options: []Option{{
		Word: "allow", Arguments: "<network>…",
		Text:    "Networks that such addresses can be in, in addition to public ones. A network is written with its first address.",
		Example: "allow 10.0.0.0/8 fd00::/8",
	}},
}

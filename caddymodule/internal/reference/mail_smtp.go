package reference

// SMTP delivers e-mails.
var SMTP = Block{
	Head: "mail smtp <host:port>", Open: "mail smtp smtp.example.com:587",
	Text:  "E-mails by SMTP. An e-mail is stored with what caused it, and sent until the mail server has taken it.",
	Needs: "from no-reply@example.com",
	Options: []Option{
		{
			Word: "from", Arguments: "<address>", Default: "required", Text: "The sender, with or without a name.",
			Example: "from Gatehouse <no-reply@example.com>",
		},
		{
			Word: "reply_to", Arguments: "<address>", Default: "`from`", Text: "Where answers go, with or without a name.",
			Example: "reply_to Help desk <help@example.com>",
		},
		{
			Word: "username", Arguments: "<name>", Default: "no authentication", Text: "The account at the mail server. It needs `password`.",
			Example: "username gatehouse\npassword {env.SMTP_PASSWORD}",
		},
		{
			Word: "password", Arguments: "<password>", Text: "The password of `username`.",
			Example: "username gatehouse\npassword {env.SMTP_PASSWORD}",
		},
		{
			Word: "tls", Arguments: "starttls|implicit|off",
			Default: "`implicit` at port 465, otherwise `starttls`; at a loopback host without `username` what the server offers",
			Example: "tls implicit",
			Text:    "How the connection is encrypted. With `starttls` a server that does not offer encryption gets nothing. `off` is refused with `username`.",
		},
		{
			Word: "timeout", Arguments: "<duration>", Default: "`20s`", Text: "For one e-mail, from the connection to the end; 25s at most.",
			Example: "timeout 10s",
		},
	},
}

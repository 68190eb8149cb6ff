package reference

// SMTP delivers e-mails.
var SMTP = Block{
	Head: "mail smtp <host:port>", Open: "mail smtp smtp.example.com:587",
	Text:  "E-mails by SMTP. An e-mail is stored with what caused it, and sent until the mail server has taken it.",
	Needs: "from no-reply@example.com",
	Options: []Option{
		{Word: "from", Arguments: "<address>", Default: "required", Text: "The sender, with or without a name.", Example: "from Gatehouse <no-reply@example.com>"},
		{Word: "username", Arguments: "<name>", Default: "no authentication", Text: "The account at the mail server. It needs `password`.", Example: "username gatehouse\npassword {env.SMTP_PASSWORD}"},
		{Word: "password", Arguments: "<password>", Text: "The password of `username`.", Example: "username gatehouse\npassword {env.SMTP_PASSWORD}"},
		{
			Word: "tls", Arguments: "starttls|implicit|off", Default: "`implicit` at port 465, otherwise `starttls`; at a loopback host without `username` what the server offers", Example: "tls implicit",
			Text: "How the connection is encrypted. With `starttls` a server that does not offer encryption gets nothing. `off` is refused with `username`.",
		},
		{Word: "timeout", Arguments: "<duration>", Default: "`20s`", Text: "For one e-mail, from the connection to the end; 25s at most.", Example: "timeout 10s"},
	},
}

// hookOptions are the options of every webhook that delivers messages.
func hookOptions(example string) []Option {
	return []Option{
		{Word: "header", Arguments: "<name> <value>…", Repeats: true, Text: "A header of each request. Values are secrets and never logged.", Example: example},
		{Word: "timeout", Arguments: "<duration>", Default: "`5s`", Text: "For one message; 8s at most.", Example: "timeout 3s"},
	}
}

// SMSWebhook delivers text messages.
var SMSWebhook = Block{
	Head: "sms webhook <url>", Open: "sms webhook https://sms.example.com/send", Bare: true,
	Text: "A POST of JSON for each text message, with `to`, `text`, `from` and `id`, until it is answered with 2xx or the code in it is too old. The URL is https, or http at a loopback host.",
	Options: append(hookOptions("header Authorization Bearer {env.SMS_TOKEN}"),
		Option{Word: "from", Arguments: "<sender>", Default: "what the service shows", Text: "The sender that people see.", Example: "from The shop"}),
}

// PushWebhook delivers prompts.
var PushWebhook = Block{
	Head: "push webhook <url>", Open: "push webhook https://push.example.com/send",
	Text:  "A POST of JSON for each prompt, with `id`, `person`, `device`, `title`, `text` and `approve_url`, signed like the webhooks of events. The URL is https, or http at a loopback host.",
	Needs: "secret {env.PUSH_SECRET}",
	Options: append(hookOptions("header X-Tenant shop"),
		Option{Word: "secret", Arguments: "<secret>", Default: "required", Text: "The key of the signature: at least 32 characters, or `whsec_` and the key in Base64.", Example: "secret {env.PUSH_SECRET}"}),
}

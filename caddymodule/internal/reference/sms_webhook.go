package reference

// SMSWebhook delivers text messages.
var SMSWebhook = Block{
	Head: "sms webhook <url>", Open: "sms webhook https://sms.example.com/send", Bare: true,
	Text: "A POST of JSON for each text message, with `to`, `text`, `from` and `id`, until it is answered with 2xx or the code in it is too old. The URL is https, or http at a loopback host.",
	Options: append(hookOptions("header Authorization Bearer {env.SMS_TOKEN}"),
		Option{Word: "from", Arguments: "<sender>", Default: "what the service shows", Text: "The sender that people see.", Example: "from The shop"}),
}

package reference

// SMSWebhook delivers text messages.
var SMSWebhook = Block{
	Head: "sms webhook <url>", Open: "sms webhook https://sms.example.com/send", Bare: true,
	Text: "A POST of JSON for each text message, with `to`, `text`, `from`, `id` and each `member`, until it is answered with 2xx or the code in it is too old. The URL is https, or http at a loopback host.",
	Options: append(hookOptions("header Authorization Bearer {env.SMS_TOKEN}"),
		Option{
			Word: "from", Arguments: "<sender>", Default: "what the service shows", Text: "The sender that people see.",
			Example: "from The shop",
		},
		Option{
			Word: "member", Arguments: "<name> <value>", Repeats: true, Default: "none",
			Text: "What else the JSON says, such as the id of a profile at the service.", Example: "member messaging_profile_id 40017",
		}),
}

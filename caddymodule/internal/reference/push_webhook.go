package reference

// PushWebhook delivers prompts.
var PushWebhook = Block{
	Head: "push webhook <url>", Open: "push webhook https://push.example.com/send",
	Text:  "A POST of JSON for each prompt, with `id`, `person`, `device`, `title`, `text` and `approve_url`, signed like the webhooks of events. The URL is https, or http at a loopback host.",
	Needs: "secret {env.PUSH_SECRET}",
	Options: append(hookOptions("header X-Tenant shop"),
		Option{
			Word: "secret", Arguments: "<secret>", Default: "required",
			Text: "The key of the signature: at least 32 characters, or `whsec_` and the key in Base64.", Example: "secret {env.PUSH_SECRET}",
		}),
}

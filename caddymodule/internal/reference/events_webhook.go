package reference

// EventWebhook is a receiver of events.
var EventWebhook = Block{
	Head: "webhook <url>", Open: "webhook https://siem.example.com/gatehouse",
	Text:  "A POST of JSON for each event, signed as [Standard Webhooks](https://www.standardwebhooks.com) says, and repeated until the receiver answers with 2xx.",
	Needs: "secret {env.EVENTS_SECRET}",
	Options: []Option{{
		Word: "secret", Arguments: "<secret>", Default: "required",
		Text:    "The key of the signature: at least 32 characters, taken as they are, or `whsec_` and the key in Base64.",
		Example: "secret {env.EVENTS_SECRET}",
	}},
}

package web

import (
	"html/template"
	"net/url"
)

// Push is the data of push: the pages about prompts on a phone, both on the phone and in the other browser. Their
// messages are push_<Key>.title, .text and .submit, filled in by Fill.
type Push struct {
	Key  string
	Fill []any // pairs of name and value
	// Good and Problem are messages above the form; Wait is the number of seconds until the next attempt is accepted.
	// Empty: nothing
	Good, Problem string
	Wait          int
	Number        string // shown in large type. Empty: none
	QR            *QR
	Link          string // content of the QR code
	Facts         []PushFact
	Action, CSRF  string // no Action: no form
	Fields        []Field
	Deny          bool // there is a second button, which declines: deny in the form
	Refresh       bool // the page reloads every few seconds
	Others        string
	Cancel        string
	// Account is the person who steps up, and Another the link for someone else. Empty: the page is on the phone.
	Account, Another string
	// Change is the page for a new password. Empty: no link
	Change string
	// ForClient names the application that asks for the sign-in above the text.
	ForClient bool
	// Message is the operator's message to the person. Empty: nothing
	Message string
	// Open opens an app on the same device, Stores are the places that have it, and Set is the page that sets up what is
	// wanted. Empty: no link
	Open   string
	Stores []FormLink
	Set    string
}

// OpenURL is the link that opens the app.
func (p Push) OpenURL() template.URL { return linkTo(p.Open) }

// linkTo returns a link that can lead to an app. Browsers know no such scheme, so templates would not let it pass.
func linkTo(to string) template.URL {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" && u.Scheme != "https" && u.Scheme != "http" && !isTarget(u.Scheme+":") {
		return ""
	}
	return template.URL(to) //nolint:gosec // G203: its scheme runs nothing in the page
}

// PushFact is a name and a value. Label is a message.
type PushFact struct {
	Label string
	Value Text
}

// Text is one of the messages of the page.
func (p Push) Text(part string) Text { return Text{"push_" + p.Key + "." + part, p.Fill} }

const pushSeconds = "4" // between two reloads of a page that waits

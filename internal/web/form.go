package web

import "net/http"

// Form is the data of form: one form or, without an Action, a text and a link to continue. Its messages are
// <Key>.title, <Key>.text and <Key>.submit, filled in by Fill.
type Form struct {
	Key          string
	Fill         []any // pairs of name and value
	Action, CSRF string
	// Problem is the key of the error notice above the form, Good that of the success notice. Empty: none
	Problem, Good string
	// Wait is the number of seconds until the next attempt is accepted, for messages such as problem.wait.
	Wait   int
	Fields []Field
	// Send says that the button sends the field send.
	Send bool
	// Other is a second form with one button: its message is Label, and it sends csrf and the field Name.
	Other *OtherButton
	// Links lead elsewhere.
	Links []FormLink
	// Next is a link that looks like the button, with the message <Key>.submit, for a form without an Action.
	Next   string
	Cancel string // same-origin link. Empty: none
	// Onward says that an application of this origin answers the form. It wants to know where the form comes from, and
	// can lead to any site.
	Onward bool
}

// OtherButton is a second button next to that of the form.
type OtherButton struct{ Name, Label string }

// FormLink is a link below a form. Label is a message.
type FormLink struct{ Label, URL string }

// Text is one of the messages of the page.
func (f Form) Text(part string) Text { return Text{f.Key + "." + part, f.Fill} }

// Lang returns the tag of the language of a page for this client and request.
func (p *Renderer) Lang(r *http.Request, wanted []string, client string) string {
	return p.match(r, wanted, p.organisationOf(r, client).language).tag
}

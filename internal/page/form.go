package page

import "net/http"

// Form is the data of form: one form, or without an Action what there is to read and where to go on. Its messages are <Key>.title, <Key>.text
// and <Key>.submit, filled in by Fill.
type Form struct {
	Key          string
	Fill         []any // pairs of name and value
	Action, CSRF string
	// Problem is the key of the notice above the form, Good that of one that says what has gone well. Empty: none
	Problem, Good string
	// Wait is for how many seconds more no try is taken, for the message problem.wait and the like.
	Wait   int
	Fields []Field
	// Send says that the button sends the field send.
	Send bool
	// Other is a second form of one button, with the message Label, that sends csrf and the field Name.
	Other *OtherButton
	// Links lead elsewhere.
	Links []FormLink
	// Next is a link that looks like the button, with the message <Key>.submit, where there is no Action.
	Next   string
	Cancel string // same-origin link. Empty: none
}

// OtherButton is a button beside that of the form.
type OtherButton struct{ Name, Label string }

// FormLink is a link below a form. Label is a message.
type FormLink struct{ Label, URL string }

// Text is one of the messages of the page.
func (f Form) Text(part string) Text { return Text{f.Key + "." + part, f.Fill} }

// Lang returns the tag of the language that a page of a client for this request is in.
func (p *Renderer) Lang(r *http.Request, wanted []string, client string) string {
	return p.match(r, wanted, p.organisationOf(r, client).language).tag
}

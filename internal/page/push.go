package page

// Push is the data of push: the pages about prompts on a phone, on the phone itself and beside it. Their messages are push_<Key>.title, .text and
// .submit, filled in by Fill.
type Push struct {
	Key  string
	Fill []any // pairs of name and value
	// Good and Problem are messages above the form; Wait is for how many seconds no try is taken. Empty: nothing
	Good, Problem string
	Wait          int
	Number        string // is shown large. Empty: none
	QR            *QR
	Link          string // what the QR code says
	Facts         []PushFact
	Action, CSRF  string // no Action: no form
	Fields        []Field
	Deny          bool // there is a second button, which says no: deny in the form
	Refresh       bool // the page is looked at again in some seconds
	Others        string
	Cancel        string
}

// PushFact is a name and a value. Label is a message.
type PushFact struct {
	Label string
	Value Text
}

// Text is one of the messages of the page.
func (p Push) Text(part string) Text { return Text{"push_" + p.Key + "." + part, p.Fill} }

const pushSeconds = "4" // between two looks at a page that waits

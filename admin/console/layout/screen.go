package layout

import (
	"io"
	"net/url"

	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Screen is a page of the console with what is done on it.
type Screen struct {
	// Name is the name in messages and tests: console.<name>.title.
	Name string
	// Path is below the console. {id} names what the screen is about.
	Path string
	Icon string // in the navigation, which names the screen in one of its groups. Empty: it is not there
	Role Role   // that sees it
	// Find reads what the screen is about, and says so in the visit. nil: it is about nothing of its own.
	Find func(v *Visit) error
	// Rank reads the role of what the screen is about in the transaction of an act, after the change. nil: it has none
	Rank func(v *Visit, tx storage.Tx) (Role, error)
	// Show returns the page.
	Show func(v *Visit) (*web.Console, error)
	// Feed begins to tell a script of the page what is new, as long as the page is open. nil: nothing is new by itself
	Feed func(v *Visit) (Feed, error)
	Acts []*Act
}

// Act is something that is done on a screen: GET of the screen's path and the name asks, POST does it.
type Act struct {
	// Name is the last part of the path: console.act.<name>, its button, and with .title and .text its page.
	Name string
	Role Role
	// peers says that it is not done to someone who has the highest role, not even by someone who has it too.
	Spares bool
	// Own says that people can do it to themselves.
	Own    bool
	Danger bool
	// Quiet says that it is not what people come to the screen for, though it stands first.
	Quiet bool
	// Hidden says that the page of the screen has no button for it, but links where it belongs.
	Hidden bool
	// Upload is the maximum size of the files of the form together, in bytes. 0: it has none
	Upload int64
	// When reports whether there is anything to do. nil: there always is.
	When func(v *Visit) bool
	// May checks the requirements of the act beyond the role, for this request. nil: nothing.
	May func(v *Visit) error
	// Ask says what would happen. nil: the message alone.
	Ask func(v *Visit) (Question, error)
	// Do does it, with the fields of the form. It returns where the browser goes, or what it is shown once.
	Do func(v *Visit, in url.Values) (Result, error)
}

// Question is the content of the page of an act.
type Question struct {
	Name   string // of the part that it is about, as the heading. Empty: the title of the act
	Fill   []any  // of its text
	Facts  []web.ConsoleFact
	Fields []web.Field
	Hidden []web.Hidden
	Parts  []web.ConsolePart // between the facts and the form
	Submit string            // message of the button. Empty: that of the act
	Off    *web.Empty        // says why it cannot be done now, in place of the form. nil: it can
	Looks  bool              // the form changes nothing: it leads to what would happen
}

// Result is the result of an act.
type Result struct {
	To   string       // path. Empty: that of the screen
	Page *web.Console // shown in place of a redirect
	// Ask asks once more, such as when the first answer says what is to be shown before anything is saved. What the
	// form has had stays in its fields.
	Ask  *Question
	File *File // sent in place of a redirect
	Undo *Undo // undoes it for a minute, from the page to which a redirect leads. nil: nothing does
}

// File is a file for the browser to save. Write is called once. An error in the middle breaks the connection off, so no
// one takes a part for the whole.
type File struct {
	Name, Type string
	Write      func(w io.Writer) error
}

// Act returns the act of a name, or nil.
func (s *Screen) Act(name string) *Act {
	for _, a := range s.Acts {
		if a.Name == name {
			return a
		}
	}
	return nil
}

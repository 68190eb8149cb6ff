// Package coded has errors that have a code and parameters next to their English text. APIs, logs and commands show the
// text; pages look up the message of the code in the language of their reader.
package coded

import (
	"errors"
	"fmt"
	"strings"
)

// Error is an error with a code. Errors that mean the same to a reader share a code.
type Error struct {
	Code string
	Fill []any // names of parameters, each followed by its value
	text string
}

func (e *Error) Error() string { return e.text }

// Errorf returns an error. names are those that the arguments have in the message of pages, in the same order and with
// spaces between them; - is an argument that does not appear there.
func Errorf(code, names, format string, args ...any) *Error {
	e := &Error{Code: code, text: fmt.Sprintf(format, args...)}
	for i, name := range strings.Fields(names) {
		if name != "-" {
			e.Fill = append(e.Fill, name, fmt.Sprint(args[i]))
		}
	}
	return e
}

// New returns an error without parameters.
func New(code, text string) *Error { return &Error{Code: code, text: text} }

// Of returns the code and the parameters of an error, or "".
func Of(err error) (code string, fill []any) {
	if e := new(Error); errors.As(err, &e) {
		return e.Code, e.Fill
	}
	return "", nil
}

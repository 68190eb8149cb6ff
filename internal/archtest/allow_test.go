package archtest

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// An allowance names what breaks a rule for the time being or for good, each with its reason. It shrinks: a name that
// breaks the rule no longer is a failure too.
type allowance map[string]string

// used notes which names of an allowance were needed.
type used struct {
	names map[string]bool
	a     allowance
}

// use returns the allowance for one test, which fails at its end for names that were not needed.
func (a allowance) use(t *testing.T) *used {
	t.Helper()
	u := &used{names: map[string]bool{}, a: a}
	t.Cleanup(func() {
		for name := range a {
			if !u.names[name] {
				t.Errorf("%s is in the list of exceptions and no longer needs to be: remove it", name)
			}
		}
	})
	return u
}

// allows reports whether a name is in the list. A function is looked up by its own name, without that of its receiver
// and without regard to whether it is exported, so a move to another package leaves the list as it is.
func (u *used) allows(name string) bool {
	for _, n := range []string{name, name[strings.LastIndexByte(name, '.')+1:]} {
		for _, n := range []string{n, recase(n, unicode.ToUpper), recase(n, unicode.ToLower)} {
			if _, ok := u.a[n]; ok {
				u.names[n] = true
				return true
			}
		}
	}
	return false
}

func recase(s string, to func(rune) rune) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(to(r)) + s[n:]
}

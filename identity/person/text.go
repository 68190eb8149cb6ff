package person

import (
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/secure/precis"
	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// IsID reports whether s has the form of a person's id, which no username can have.
func IsID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// Fold returns the form in which usernames are compared, or a *ValidationError. (RFC 8265 3.3, UsernameCaseMapped:
// width, case, NFC)
func Fold(username string) (string, error) {
	username = strings.TrimSpace(username)
	if username == "" || !utf8.ValidString(username) || utf8.RuneCountInString(username) > MaxUsername {
		return "", &ValidationError{"username", fmt.Sprintf("must have 1 to %d characters", MaxUsername)}
	}
	folded, err := precis.UsernameCaseMapped.String(username)
	if err != nil || len(folded) > maxFolded {
		return "", &ValidationError{"username", "has characters that a username cannot have, such as spaces"}
	}
	return folded, nil
}

// FoldEmail returns the form in which e-mail addresses are compared: mail systems ignore case.
func FoldEmail(s string) string { return strings.ToLower(norm.NFC.String(s)) }

// IsEmail reports whether s is an e-mail address.
func IsEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && len(s) <= 254 && IsText(s, 254)
}

// IsPublicEmail reports whether s is an e-mail address below a registered domain, which is what people type about
// themselves: one without a dot has lost its end, and so has one whose last part is a single letter. Administrators and
// directories can also name machines of their own.
func IsPublicEmail(s string) bool {
	labels := strings.Split(s[strings.LastIndexByte(s, '@')+1:], ".")
	last := labels[len(labels)-1]
	return IsEmail(s) && len(labels) > 1 && utf8.RuneCountInString(last) > 1 && strings.ContainsFunc(last, unicode.IsLetter) &&
		!slices.ContainsFunc(labels, func(l string) bool { return !label.MatchString(l) })
}

// label is a part of the name of a host. (RFC 5890 2.3.1, also in Unicode)
var label = regexp.MustCompile(`^[\pL\pN](?:[\pL\pM\pN_-]*[\pL\pM\pN])?$`)

// EmailUsernames reports whether new usernames are e-mail addresses.
func (s *Service) EmailUsernames() bool { return s.cfg.EmailUsernames }

// CheckChosen returns a *ValidationError if no one can get a username
// (docs/decisions/persons.md#usernames-that-are-addresses).
func (s *Service) CheckChosen(username string) error {
	if s.cfg.EmailUsernames && !IsEmail(strings.TrimSpace(username)) {
		return &ValidationError{"username", "must be an e-mail address: identity has `usernames email`"}
	}
	return nil
}

// IsText reports whether s has at most limit characters, none of them a control character. Those that turn the
// direction of what follows are: a name must not change how the text around it reads.
func IsText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !authn.Turns(s) && !strings.ContainsFunc(s, func(c rune) bool {
		return unicode.IsControl(c) || c == '\u2028' || c == '\u2029'
	})
}

package safexml

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted returns the value of an attribute as written. References are checked, not resolved: names and IDs contain
// none.
func (s *scanner) quoted() (string, error) {
	if s.at >= len(s.raw) || s.raw[s.at] != '"' && s.raw[s.at] != '\'' {
		return "", errors.New("an attribute without quotes")
	}
	quote := s.raw[s.at]
	s.at++
	from := s.at
	if err := s.text(quote); err != nil {
		return "", err
	}
	value := string(s.raw[from:s.at])
	s.at++
	return value, nil
}

// text reads character data up to the byte until. A missing end is an error.
func (s *scanner) text(until byte) error {
	rest := s.raw[s.at:]
	n := bytes.IndexByte(rest, until)
	if n < 0 {
		return errors.New("text or a value without an end")
	}
	rest = rest[:n]
	if bytes.Contains(rest, []byte("]]>")) && !(s.metadata && until != '<') || until != '<' && bytes.IndexByte(rest, '<') >= 0 {
		return errors.New("markup inside text")
	}
	if err := s.characters(rest); err != nil {
		return err
	}
	for {
		_, after, ok := bytes.Cut(rest, []byte("&"))
		if !ok {
			s.at += n
			return nil
		}
		ref, _, ok := bytes.Cut(after[:min(len(after), 12)], []byte(";"))
		if !ok || !s.isReference(string(ref)) {
			return errors.New("a reference to an entity that is not predefined")
		}
		rest = after
	}
}

// isReference reports whether &ref; is one of the five predefined entities or a character that text can contain.
func (s *scanner) isReference(ref string) bool {
	switch ref {
	case "lt", "gt", "amp", "apos", "quot":
		return true
	}
	digits, ok := strings.CutPrefix(ref, "#")
	base := 10
	if hex, isHex := strings.CutPrefix(digits, "x"); isHex {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	return ok && err == nil && digits[0] != '+' && n <= utf8.MaxRune && s.isCharacter(rune(n))
}

func (s *scanner) characters(b []byte) error {
	for i := 0; i < len(b); {
		if c := b[i]; c >= 0x20 && c < utf8.RuneSelf {
			i++
			continue
		}
		c, size := utf8.DecodeRune(b[i:])
		if !s.isCharacter(c) {
			return errors.New("a control character")
		}
		i += size
	}
	return nil
}

// isCharacter reports whether c is a Char of XML 1.0. The control characters above ASCII, which XML permits, are
// refused in messages. In metadata they are what is left of a text that was converted wrongly.
func (s *scanner) isCharacter(c rune) bool {
	return s.metadata && c >= 0x7f && c < 0xa0 || c == '\t' || c == '\n' || c == '\r' || c >= 0x20 && c < 0x7f || c >= 0xa0 &&
		c <= 0xd7ff || c >= 0xe000 && c <= 0xfffd ||
		c >= 0x10000 && c <= 0x10ffff
}

// name reads prefix:local or local.
func (s *scanner) name() (string, error) {
	n := 0
	for s.at+n < len(s.raw) && isNameByte(s.raw[s.at+n]) {
		n++
	}
	name := string(s.raw[s.at : s.at+n])
	prefix, local, qualified := strings.Cut(name, ":")
	if n > maxName || !IsNCName(prefix) || qualified && !IsNCName(local) {
		return "", errors.New("an XML name is missing, or too long")
	}
	s.at += n
	return name, nil
}

func (s *scanner) next(word string) bool {
	if !bytes.HasPrefix(s.raw[s.at:], []byte(word)) {
		return false
	}
	s.at += len(word)
	return true
}

func (s *scanner) skipSpace() bool {
	from := s.at
	for s.at < len(s.raw) && IsSpace(rune(s.raw[s.at])) {
		s.at++
	}
	return s.at > from
}

// IsSpace reports whether c is white space of XML.
func IsSpace(c rune) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ':'
}

// IsNCName reports whether s is a name without a prefix, in ASCII.
func IsNCName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isNameByte(c) || c == ':' || i == 0 && (c == '-' || c == '.' || c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

func splitName(name string) (prefix, local string) {
	if prefix, local, ok := strings.Cut(name, ":"); ok {
		return prefix, local
	}
	return "", name
}

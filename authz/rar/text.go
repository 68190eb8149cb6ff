package rar

import (
	"slices"
	"strings"
)

// What Read has returned is taken apart here without reading JSON, since it happens inside transactions.

// Split returns the details of a text that Read has returned, one by one.
func Split(text string) (all []string) {
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = endOfText(text, i)
		case '{', '[':
			if depth++; depth == 2 {
				from = i
			}
		case '}', ']':
			if depth--; depth == 1 {
				all = append(all, text[from:i+1])
			}
		}
	}
	return all
}

// Join is the opposite of Split.
func Join(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "[" + strings.Join(all, ",") + "]"
}

// endOfText returns where the string ends that begins at i.
func endOfText(text string, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// typeOf returns the type of one of them. CheckName allows nothing that JSON writes otherwise.
func typeOf(one string) string {
	const member = `"` + memberType + `"`
	depth := 0
	for i := 0; i < len(one); i++ {
		switch one[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := endOfText(one, i)
			if rest, ok := strings.CutPrefix(one[i:], member+`:"`); ok && depth == 1 {
				name, _, _ := strings.Cut(rest, `"`)
				return name
			}
			i = end
		}
	}
	return ""
}

// TypesOf are the types of details that Read has returned, each once.
func TypesOf(text string) (names []string) {
	for _, one := range Split(text) {
		if name := typeOf(one); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Keep returns the details of those types that may says are allowed. What was allowed once stays as it is, although the
// operator has changed what its type can have.
func Keep(text string, may func(name string) bool) string {
	all := Split(text)
	kept := slices.DeleteFunc(slices.Clone(all), func(one string) bool { return !may(typeOf(one)) })
	if len(kept) == len(all) {
		return text
	}
	return Join(kept)
}

// The bounds of the details that are remembered of a person and a client. Those of one request fit.
const (
	maxRemembered     = 100
	maxRememberedText = 128 << 10 // bytes
)

// Remember adds details to those that someone has allowed, the newest last.
func Remember(known []string, text string) []string {
	for _, one := range Split(text) {
		known = append(slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == one }), one)
	}
	known = known[max(0, len(known)-maxRemembered):]
	size := 0
	for i := len(known) - 1; i >= 0; i-- {
		if size += len(known[i]); size > maxRememberedText {
			return known[i+1:]
		}
	}
	return known
}

// ActionsOf are the actions of the details of one type.
func ActionsOf(text, name string) (actions []string) {
	for _, one := range Split(text) {
		if typeOf(one) != name {
			continue
		}
		all, _ := parse(one)[memberActions].([]any)
		for _, v := range all {
			if action, ok := v.(string); ok && !slices.Contains(actions, action) {
				actions = append(actions, action)
			}
		}
	}
	return actions
}

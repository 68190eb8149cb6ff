package rar

import (
	"encoding/json"
	"slices"
)

// Covers reports whether each of the details asked is within one of those that someone has: of the same type, with the
// same members, where the common lists can be shorter and everything else is equal. A member less can mean more, so it
// does not pass for less. (RFC 9396 6.1; docs/decisions/authorization.md#authorization-details)
func Covers(have []string, asked string) bool {
	for _, one := range Split(asked) {
		if slices.Contains(have, one) {
			continue
		}
		d := parse(one)
		if d == nil || !slices.ContainsFunc(have, func(of string) bool { return typeOf(of) == typeOf(one) && within(d, parse(of)) }) {
			return false
		}
	}
	return true
}

func within(d, of map[string]any) bool {
	if len(d) != len(of) {
		return false
	}
	for name, v := range d {
		limit, there := of[name]
		if !there {
			return false
		}
		switch name {
		case memberLocations, memberActions, memberDataTypes, memberPrivileges:
			if !isPart(v, limit) {
				return false
			}
		default:
			if !equal(v, limit) {
				return false
			}
		}
	}
	return true
}

// isPart reports whether a list has nothing that another one lacks. An empty list is of nothing, so it is no part.
func isPart(v, limit any) bool {
	some, ok := v.([]any)
	all, good := limit.([]any)
	return ok && good && len(some) > 0 && !slices.ContainsFunc(some, func(one any) bool {
		return !slices.ContainsFunc(all, func(other any) bool { return equal(one, other) })
	})
}

func equal(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

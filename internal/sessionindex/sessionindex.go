// Package sessionindex lists sessions by the IP address and device of their last use, and by the applications and sites
// that they were used at. An entry is a hint: readers compare it with the record of the session.
// (docs/decisions/console.md#lists-of-sessions)
package sessionindex

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Kind is the kind of a place.
type Kind string

// The kinds, as they are stored.
const (
	Address     Kind = "ip"
	Device      Kind = "device"      // as DeviceOf names it
	Application Kind = "application" // client id
	Site        Kind = "site"        // origin
)

// Note lists a session. It reads nothing, so those who sign in never meet each other. An empty value is no place.
func Note(tx storage.Tx, kind Kind, value, session string, expires time.Time) error {
	if value == "" || session == "" {
		return nil
	}
	return entries.Put(tx, storage.Key(string(kind), value, session), struct{}{}, expires)
}

// Forget takes a session out of a list.
func Forget(tx storage.Tx, kind Kind, value, session string) error {
	if value == "" {
		return nil
	}
	return entries.Delete(tx, storage.Key(string(kind), value, session))
}

// Has reports whether a session is in a list.
func Has(tx storage.Tx, kind Kind, value, session string) (bool, error) {
	return entries.Has(tx, storage.Key(string(kind), value, session))
}

// Sessions returns at most so many sessions of a list, in the order of their ids, which is random, from after one of
// them. There is more if there are so many.
func Sessions(tx storage.Tx, kind Kind, value, after string, most int) (ids []string, err error) {
	r := storage.Range{Prefix: storage.Prefix(string(kind), value), Limit: most}
	if after != "" {
		r.After = []byte(storage.Key(string(kind), value, after))
	}
	for e, err := range entries.Scan(tx, r) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, storage.Parts(e.Key)[2])
	}
	return ids, nil
}

// Values returns at most so many values of a kind that have sessions, in their order.
func Values(tx storage.Tx, kind Kind, most int) (values []string, err error) {
	prefix := storage.Prefix(string(kind))
	for after := prefix; len(values) < most; {
		n := len(values)
		for e, err := range entries.Scan(tx, storage.Range{Prefix: prefix, After: after, Limit: 1}) {
			if err != nil {
				return nil, err
			}
			values = append(values, storage.Parts(e.Key)[1])
		}
		if len(values) == n {
			break
		}
		after = append(storage.Prefix(string(kind), values[n]), 0xff) // after all sessions of it
	}
	return values, nil
}

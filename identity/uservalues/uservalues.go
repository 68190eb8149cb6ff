// Package uservalues stores small values that applications keep for people, such as a preference of an application
// without a database. (docs/decisions/events.md#values-of-applications)
package uservalues

import (
	"encoding/json"
	"errors"
	"regexp"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Limits of what one application keeps for one person.
const (
	MaxValue = 16 << 10 // bytes of a value
	maxAll   = 64 << 10 // bytes of all values with their keys
	maxKeys  = 64
)

var (
	// ErrKey says that a key has characters that it cannot have, or too many.
	ErrKey = errors.New("a key has 1 to 64 letters, digits, dots, dashes and underscores")
	// ErrValue says that a value is no JSON.
	ErrValue = errors.New("the value must be JSON of at most 16 KiB")
	// ErrFull says that there is no room for a value.
	ErrFull = errors.New("an application keeps at most 64 values and 64 KiB for a person: remove some")
	// ErrChanged says that a value is not the one that the caller knows.
	ErrChanged = errors.New("the value has changed")
)

var keyForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Value is the value of an application for a person under a key.
type Value struct {
	Key       string          `json:"key" rest:"required"`
	Value     json.RawMessage `json:"value" rest:"required"`
	UpdatedAt time.Time       `json:"updated_at" rest:"required"`
	Tag       string          `json:"-"` // changes with the value
}

// Check returns ErrKey or ErrValue for a value that cannot be kept.
func (v *Value) Check() error {
	switch {
	case !keyForm.MatchString(v.Key):
		return ErrKey
	case len(v.Value) > MaxValue || !json.Valid(v.Value):
		return ErrValue
	}
	return nil
}

// Get returns a value, or storage.ErrNotFound.
func Get(tx storage.Tx, person, application, key string) (Value, error) {
	if !keyForm.MatchString(key) {
		return Value{}, storage.ErrNotFound
	}
	rec, err := values.Get(tx, storage.Key(person, application, key))
	return Value{key, rec.Value, rec.UpdatedAt, rec.Tag}, err
}

// List returns all values of an application, in the order of their keys.
func List(tx storage.Tx, person, application string) ([]Value, error) {
	out := []Value{}
	for e, err := range values.Scan(tx, storage.Range{Prefix: storage.Prefix(person, application)}) {
		if err != nil {
			return nil, err
		}
		out = append(out, Value{storage.Parts(e.Key)[2], e.Value.Value, e.Value.UpdatedAt, e.Value.Tag})
	}
	return out, nil
}

// Put stores a value that Check has passed. fits decides by the one that is there, nil for none. Errors: ErrFull,
// ErrChanged.
func Put(tx storage.Tx, person, application string, v Value, fits func(before *Value) bool) error {
	list, err := List(tx, person, application)
	if err != nil {
		return err
	}
	var before *Value
	size, count := len(v.Key)+len(v.Value), 1
	for i := range list {
		if list[i].Key == v.Key {
			before = &list[i]
			continue
		}
		size += len(list[i].Key) + len(list[i].Value)
		count++
	}
	switch {
	case !fits(before):
		return ErrChanged
	case count > maxKeys || size > maxAll:
		return ErrFull
	}
	return values.Put(tx, storage.Key(person, application, v.Key), valueRecord{v.Value, v.UpdatedAt, v.Tag}, time.Time{})
}

// Delete removes a value. fits decides by the one that is there, nil for none. Error: ErrChanged.
func Delete(tx storage.Tx, person, application, key string, fits func(before *Value) bool) error {
	v, err := Get(tx, person, application, key)
	before := &v
	if errors.Is(err, storage.ErrNotFound) {
		before, err = nil, nil
	}
	switch {
	case err != nil:
		return err
	case !fits(before):
		return ErrChanged
	case before == nil:
		return nil
	}
	return values.Delete(tx, storage.Key(person, application, key))
}

// Forget removes what all applications keep for a person.
func Forget(tx storage.Tx, person string) error { return remove(tx, storage.Prefix(person)) }

// Clear removes all values of an application for a person.
func Clear(tx storage.Tx, person, application string) error {
	return remove(tx, storage.Prefix(person, application))
}

func remove(tx storage.Tx, prefix []byte) error {
	for e, err := range values.Scan(tx, storage.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		if err := values.Delete(tx, e.Key); err != nil {
			return err
		}
	}
	return nil
}

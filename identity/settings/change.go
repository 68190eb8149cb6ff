package settings

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Change is a member that differs between two states. An array is one member, and so is an object with free names.
type Change struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`

	unit string
}

// changes returns what differs between two states.
func changes(from, to *Units) []Change {
	var out []Change
	for _, un := range table {
		before := len(out)
		if un.name == "policies" {
			out = append(out, changesOfPolicies(from.Policies, to.Policies)...)
		} else {
			out = append(out, changesOf(reflect.ValueOf(un.of(from)).Elem(), reflect.ValueOf(un.of(to)).Elem(), un.name)...)
		}
		if un.name == "login_methods" && len(out) == before && !sameSecrets(from, to) {
			list := encode(from.LoginMethods.LoginMethods) // only secrets differ, which are never read
			out = append(out, Change{Path: "login_methods.login_methods", From: list, To: list})
		}
		for i := range out[before:] {
			out[before+i].unit = un.name
		}
	}
	return out
}

func changesOf(a, b reflect.Value, path string) []Change {
	if a.Kind() == reflect.Struct {
		var out []Change
		for f := range wire.Fields(a.Type()) {
			out = append(out, changesOf(a.Field(f.Index), b.Field(f.Index), path+"."+f.Name)...)
		}
		return out
	}
	from, to := encode(a.Interface()), encode(b.Interface())
	if bytes.Equal(from, to) {
		return nil
	}
	return []Change{{Path: path, From: from, To: to}}
}

// changesOfKeyPairs returns what differs in key pairs. Of their private parts, the two values say nothing.
func changesOfKeyPairs(tx storage.Tx, pairs *keystore.Change) (out []Change, err error) {
	list, err := pairs.Differences(tx)
	for _, d := range list {
		out = append(out, Change{Path: "key_pairs." + d.To.Name, From: encode(d.From), To: encode(d.To)})
	}
	return out, err
}

func sameSecrets(a, b *Units) bool {
	all := func(u *Units) (out []string) {
		for at, s := range u.secrets() {
			if *s != "" {
				out = append(out, at+"="+s.Reveal())
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(all(a), all(b))
}

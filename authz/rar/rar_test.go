package rar_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-id/gatehouse/authz/rar"
)

// awkward are texts that stand in JSON with quotes, braces and backslashes.
var awkward = []string{`"`, `\`, `{`, `}`, `[`, `],[`, `type`, `"type":"b"`, `\"type\":`, "a", "ü", "<b>", ",", ":"}

// TestDetailsAreTakenApart: without reading JSON, details are split at the right places and have the right type.
func TestDetailsAreTakenApart(t *testing.T) {
	t.Parallel()
	types, err := rar.New([]rar.Type{
		{Name: "a", Identifier: true, Members: []rar.Member{{Path: "b.type"}, {Path: "c"}}},
		{Name: "urn:z", Identifier: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var asked []map[string]any
		var names []string
		for range rapid.IntRange(1, 5).Draw(t, "how many") {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(awkward), 1, 6).Draw(t, "text"), "")
			d := map[string]any{"type": "urn:z", "identifier": text}
			if rapid.Bool().Draw(t, "own members") {
				d = map[string]any{"type": "a", "b": map[string]any{"type": []any{text, "x"}}, "c": text}
			}
			if !slices.ContainsFunc(asked, func(o map[string]any) bool { return reflect.DeepEqual(o, d) }) {
				asked, names = append(asked, d), append(names, d["type"].(string))
			}
		}
		raw, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		text, err := types.Read(string(raw))
		if err != nil || text != string(raw) {
			t.Fatalf("Read(%s) = %s, %v", raw, text, err)
		}
		all := rar.Split(text)
		if len(all) != len(asked) || rar.Join(all) != text {
			t.Fatalf("Split(%s) = %q", text, all)
		}
		for i, one := range all {
			var read map[string]any
			if err := json.Unmarshal([]byte(one), &read); err != nil || !reflect.DeepEqual(read, asked[i]) {
				t.Fatalf("%s is not one of %s: %v", one, text, err)
			}
			if got := rar.TypesOf("[" + one + "]"); !slices.Equal(got, names[i:i+1]) {
				t.Fatalf("%s has the types %q, want %q", one, got, names[i])
			}
		}
		none, every := func(string) bool { return false }, func(string) bool { return true }
		if !rar.Covers(all, text) || rar.Keep(text, none) != "" || rar.Keep(text, every) != text {
			t.Fatalf("%s is not within itself", text)
		}
		known := rar.Remember(nil, text)
		if again := rar.Remember(known, text); !slices.Equal(known, again) {
			t.Fatalf("remembered %q, then %q", known, again)
		}
	})
}

// TestWhatIsRememberedIsBounded: a client that asks for another payment each time fills no store.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	const maxRemembered, maxRememberedText, maxSize = 100, 128 << 10, 8 << 10
	var known []string
	for i := range 3 * maxRemembered {
		known = rar.Remember(known, `[{"identifier":"`+strings.Repeat("x", i+1)+`","type":"a"}]`)
	}
	if len(known) != maxRemembered || !strings.Contains(known[maxRemembered-1], strings.Repeat("x", 3*maxRemembered)) {
		t.Errorf("%d are remembered", len(known))
	}
	for i := range maxRemembered { // of the size of a request, and longer where JSON writes < in six bytes
		known = rar.Remember(known, `[{"identifier":"`+strings.Repeat(`\u003c`, maxSize-i)+`","type":"a"}]`)
	}
	if size := len(rar.Join(known)); size > maxRememberedText+maxRemembered || len(known) != 2 ||
		!strings.Contains(known[1], `"`+strings.Repeat(`\u003c`, maxSize-maxRemembered+1)+`"`) {
		t.Errorf("%d with %d bytes are remembered", len(known), size)
	}
}

package strictjson_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

func TestDecodeTypesThatUnmarshalThemselves(t *testing.T) {
	t.Parallel()
	var into struct {
		At    time.Time            `json:"at"`
		Addr  *netip.Addr          `json:"addr"`
		Until map[string]time.Time `json:"until"`
	}
	if err := strictjson.Decode([]byte(`{"at":"2026-05-01T12:00:00Z","addr":"192.0.2.1"}`), &into); err != nil {
		t.Fatal(err)
	}
	if !into.At.Equal(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)) || into.Addr == nil || into.Addr.String() != "192.0.2.1" {
		t.Errorf("Decode = %+v", into)
	}
	for body, want := range map[string]string{
		`{"at":"yesterday"}`:      "at: is not valid",
		`{"until":{"x":"never"}}`: "until.x: is not valid",
		`{"addr":{"a":1,"a":2}}`:  "addr.a: is there twice",
	} {
		if err := strictjson.Decode([]byte(body), &into); err == nil || err.Error() != want {
			t.Errorf("Decode(%s) = %v, want %s", body, err, want)
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	got, err := strictjson.Value([]byte(`{"a":[1.50,null,{"b":true}],"c":"d"}`))
	want := map[string]any{"a": []any{json.Number("1.50"), nil, map[string]any{"b": true}}, "c": "d"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Value = %v, %v, want %v", got, err, want)
	}
	if _, err := strictjson.Value([]byte(`{"a":{"b":1,"b":2}}`)); err == nil || err.Error() != "a.b: is there twice" {
		t.Errorf("Value of a member twice = %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct{ name, text, want string }{
		{"a value", `{"a":"[[[["}`, ""},
		{"as deep as allowed", nested(3), ""},
		{"too deep", nested(4), "nests deeper than 3"},
		{"two values", `{} {}`, "is not one JSON value"},
		{"nothing", ``, "is not one JSON value"},
		{"not UTF-8", "\"\xff\"", "is not UTF-8"},
	} {
		err := strictjson.Check([]byte(tt.text), 3)
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("Check of %s = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestMerge: members that are required can be absent from what is merged into a complete value, and not from a new one.
func TestMerge(t *testing.T) {
	t.Parallel()
	type pair struct {
		A int `json:"a" rest:"required"`
		B int `json:"b" rest:"required"`
	}
	type value struct {
		Pair pair            `json:"pair"`
		At   *pair           `json:"at"`
		List []pair          `json:"list"`
		Map  map[string]pair `json:"map"`
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a part of an object", `{"pair":{"b":9}}`, ""},
		{"a part of an object behind a pointer", `{"at":{"a":9}}`, ""},
		{"a new entry of an array", `{"list":[{"a":1}]}`, "list[0].b: is required"},
		{"a new entry of a map", `{"map":{"x":{"b":1}}}`, "map.x.a: is required"},
		{"an object after an array", `{"list":[{"a":1,"b":2}],"pair":{"b":9}}`, ""},
		{"an unknown member", `{"pair":{"c":1}}`, "pair.c: unknown member"},
	} {
		v := value{Pair: pair{1, 2}, At: &pair{3, 4}}
		err := strictjson.Merge([]byte(tt.text), &v)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Merge of %s = %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && (v.Pair.A != 1 || v.At.B != 4) {
			t.Errorf("Merge of %s changes what is absent: %+v, %+v", tt.name, v.Pair, v.At)
		}
	}
	var empty value
	if err := strictjson.Merge([]byte(`{"at":{"a":1}}`), &empty); err == nil || err.Error() != "at.b: is required" {
		t.Errorf("Merge into nothing = %v, want at.b: is required", err)
	}
}

package jsonapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

type inner struct {
	Count int      `json:"count"`
	Words []string `json:"words"`
}

type outer struct {
	Name   string          `json:"name"`
	On     bool            `json:"enabled"`
	Small  int8            `json:"small"`
	Share  float64         `json:"share"`
	In     inner           `json:"in"`
	List   []inner         `json:"list"`
	Map    map[string]int  `json:"map"`
	Maybe  *inner          `json:"maybe,omitempty"`
	Any    any             `json:"any"`
	Raw    json.RawMessage `json:"raw"`
	hidden string
}

func TestDecodeBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"unknown member", `{"nme":"x"}`, "nme: unknown member"},
		{"unknown member, deep", `{"list":[{"count":1},{"cont":2}]}`, "list[1].cont: unknown member"},
		{"another case", `{"Name":"x"}`, "Name: unknown member"},
		{"a letter that folds", `{"ſmall":1}`, "ſmall: unknown member"},
		{"unexported", `{"hidden":"x"}`, "hidden: unknown member"},
		{"twice", `{"name":"x","name":"y"}`, "name: is there twice"},
		{"twice, escaped", `{"name":"x","n\u0061me":"y"}`, "name: is there twice"},
		{"twice in a map", `{"map":{"a":1,"a":2}}`, "map.a: is there twice"},
		{"twice in any", `{"any":{"a":[{"b":1,"b":2}]}}`, "any.a[0].b: is there twice"},
		{"string for a number", `{"small":"8"}`, "small: must be an integer, not a string"},
		{"number for a string", `{"name":8}`, "name: must be a string, not a number"},
		{"number for a boolean", `{"enabled":1}`, "enabled: must be true or false, not a number"},
		{"array for an object", `{"in":[]}`, "in: must be an object, not an array"},
		{"object for an array", `{"list":{}}`, "list: must be an array, not an object"},
		{"null", `{"in":{"count":null}}`, "in.count: must be an integer, not null"},
		{"null object", `{"in":null}`, "in: must be an object, not null"},
		{"null pointer", `{"maybe":null}`, "maybe: must be an object, not null"},
		{"fraction", `{"in":{"count":1.5}}`, "in.count: must be an integer, not a number"},
		{"exponent", `{"in":{"count":1e2}}`, "in.count: must be an integer, not a number"},
		{"too large", `{"small":128}`, "small: is too large or too small"},
		{"far too large", `{"in":{"count":9223372036854775808}}`, "in.count: is too large or too small"},
		{"infinite", `{"share":1e999}`, "share: is too large or too small"},
		{"a long number", `{"share":` + strings.Repeat("1", 100) + `}`, "share: is not a number that can be taken"},
		{"trailing data", `{} {}`, "the body is not one JSON value"},
		{"trailing comma", `{"name":"x",}`, "the body is not one JSON value"},
		{"comment", `{/**/}`, "the body is not one JSON value"},
		{"cut", `{"name":"x"`, "the body is not one JSON value"},
		{"empty", ``, "the body is not one JSON value"},
		{"byte order mark", "\ufeff{}", "the body is not one JSON value"},
		{"not UTF-8", "{\"name\":\"\xff\"}", "the body is not UTF-8"},
		{"UTF-16", "{\x00}\x00", "the body is not one JSON value"},
		{"too deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), "nests deeper"},
		{"not an object", `[]`, "must be an object, not an array"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := jsonapi.DecodeBytes([]byte(tt.body), &outer{})
			e := new(jsonapi.Error)
			if !errors.As(err, &e) || e.Status != http.StatusBadRequest || !strings.Contains(e.Message, tt.want) {
				t.Errorf("DecodeBytes(%q) = %v, want 400 with %q", tt.body, err, tt.want)
			}
		})
	}
}

func TestDecodeBytesMerges(t *testing.T) {
	t.Parallel()
	before := outer{
		Name: "a", On: true, In: inner{1, []string{"x", "y"}}, List: []inner{{1, []string{"one"}}, {2, nil}}, Map: map[string]int{"a": 1},
		Maybe: &inner{Count: 5, Words: []string{"p"}}, hidden: "kept",
	}
	shared := before
	err := jsonapi.DecodeBytes([]byte(`{"in":{"words":["z"]},"list":[{"count":7}],"map":{"b":2},"maybe":{"count":6},"any":{"n":[1,null]},"raw":{"q":true}}`), &shared)
	if err != nil {
		t.Fatal(err)
	}
	want := outer{
		Name: "a", On: true, In: inner{1, []string{"z"}}, List: []inner{{7, nil}}, Map: map[string]int{"b": 2},
		Maybe: &inner{Count: 6, Words: []string{"p"}}, Any: map[string]any{"n": []any{json.Number("1"), nil}},
		Raw: json.RawMessage(`{"q":true}`), hidden: "kept",
	}
	if !reflect.DeepEqual(shared, want) {
		t.Errorf("objects merge, arrays and maps are replaced:\n got %+v\nwant %+v", shared, want)
	}
	if before.In.Words[0] != "x" || before.List[0].Count != 1 || before.Map["a"] != 1 || before.Maybe.Count != 5 {
		t.Errorf("what the value shared with its copy was changed: %+v", before)
	}
}

func TestDecodeBytesRequired(t *testing.T) {
	t.Parallel()
	type pair struct {
		A int `json:"a" rest:"required"`
		B int `json:"b" rest:"required"`
	}
	var into struct {
		In []pair `json:"in"`
	}
	err := jsonapi.DecodeBytes([]byte(`{"in":[{"a":1,"b":2},{"b":0}]}`), &into)
	if err == nil || !strings.Contains(err.Error(), "in[1].a: is required") {
		t.Errorf("DecodeBytes() = %v, want that in[1].a is required", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		types  []string
		coding string
		size   int
		want   int
	}{
		{"plain", []string{"application/json"}, "", 10, 0},
		{"with a charset", []string{"application/json; charset=UTF-8"}, "", 10, 0},
		{"another charset", []string{"application/json; charset=utf-16"}, "", 10, 415},
		{"none", nil, "", 10, 415},
		{"text", []string{"text/plain"}, "", 10, 415},
		{"form", []string{"application/x-www-form-urlencoded"}, "", 10, 415},
		{"like JSON", []string{"application/jsonp"}, "", 10, 415},
		{"two", []string{"application/json", "text/plain"}, "", 10, 415},
		{"malformed", []string{"application/json; charset"}, "", 10, 415},
		{"compressed", []string{"application/json"}, "gzip", 10, 415},
		{"as large as allowed", []string{"application/json"}, "", 100, 0},
		{"too large", []string{"application/json"}, "", 101, 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"+strings.Repeat(" ", tt.size-2)))
			r.Header["Content-Type"] = tt.types
			if tt.coding != "" {
				r.Header.Set("Content-Encoding", tt.coding)
			}
			err := jsonapi.Decode(httptest.NewRecorder(), r, 100, &outer{})
			e := new(jsonapi.Error)
			if errors.As(err, &e); e.Status != tt.want {
				t.Errorf("Decode() = %v, want status %d", err, tt.want)
			}
		})
	}
}

// TestDecodeIsBounded: every refusal is cheap. (SECURITY: 251)
func TestDecodeIsBounded(t *testing.T) {
	t.Parallel()
	var keys bytes.Buffer
	keys.WriteString(`{"map":{`)
	for i := range 30000 {
		fmt.Fprintf(&keys, `"%d":1,`, i)
	}
	keys.WriteString(`"x":1}}`)
	for name, body := range map[string]string{
		"attack 251: a depth of 100,000":          strings.Repeat(`{"any":`, 100_000),
		"attack 251: arrays 100,000 deep":         strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000),
		"attack 251: a million members":           `{"map":{` + strings.Repeat(`"a":1,`, 1_000_000) + `"b":2}}`,
		"attack 251: a string of 64 MB":           `{"name":"` + strings.Repeat("x", 64<<20) + `"}`,
		"attack 251: a number of 1 MB":            `{"small":` + strings.Repeat("9", 1<<20) + `}`,
		"attack 251: unbalanced quotes":           strings.Repeat(`"\`, 200_000),
		"attack 249: members that differ in case": `{"enabled":false,"Enabled":true}`,
		"attack 249: members twice":               `{"enabled":false,"enabled":true}`,
		"attack 249: a Kelvin sign":               `{"\u212Aey":1}`,
		"attack 248: a member that is not ours":   `{"name":"x","role":"admin","password_hash":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			start := time.Now()
			err := jsonapi.Decode(httptest.NewRecorder(), r, 512<<10, &outer{})
			e := new(jsonapi.Error)
			if !errors.As(err, &e) || e.Status != 400 && e.Status != 413 {
				t.Errorf("Decode(%s) = %v, want 400 or 413", name, err)
			}
			if d := time.Since(start); d > time.Minute { // a bound for slow machines; the work is linear
				t.Errorf("Decode(%s) took %v", name, d)
			}
		})
	}
	if err := jsonapi.DecodeBytes(keys.Bytes(), &outer{}); err != nil {
		t.Errorf("many members within the bound: %v", err)
	}
}

// FuzzDecodeBytes: an accepted value is the one that encoding/json reads from the same bytes, and nothing panics.
func FuzzDecodeBytes(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"name":"x","in":{"count":1,"words":["a"]}}`, `{"list":[{},{"count":-1}],"map":{"":0}}`, `{"any":[1,{"a":null}],"raw":"\ud800"}`,
		`{"name":"x","name":"y"}`, `[[[]]]`, `{"small":127,"share":0.5}`, "\"", `{"maybe":{"words":[]}}`, `nul`, `{"a":{"a":{"a":1}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want outer
		if err := jsonapi.DecodeBytes(raw, &got); err != nil {
			if e := new(jsonapi.Error); !errors.As(err, &e) || e.Status != http.StatusBadRequest {
				t.Fatalf("DecodeBytes(%q) = %v, want a 400", raw, err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		dec.DisallowUnknownFields()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("DecodeBytes(%q) took what encoding/json refuses: %v", raw, err)
		}
		got.Raw, want.Raw = nil, nil // written again, so its spelling differs
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Fatalf("DecodeBytes(%q) read\n%s, encoding/json\n%s", raw, a, b)
		}
	})
}

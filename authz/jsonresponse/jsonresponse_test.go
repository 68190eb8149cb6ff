package jsonresponse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
)

// texts are strings that JSON can write in several ways.
var texts = []string{
	"", "a", "openid profile", "\x00", "\b\f\n\r\t", "\x1f", "\x7f", `"\/`, "<script>&amp;</script>", "josé", "日本", "\u2028\u2029", "\ufffd",
	"\xff", "a\xc3", "\U0001f600", "\xed\xa0\x80",
}

// fill sets every member of a struct from a text and a number. New members are filled too, so none is forgotten.
func fill(t testing.TB, v reflect.Value, text string, n int) {
	t.Helper()
	lists := [][]string{nil, {}, {text}, {text, "b"}}
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case string:
			f.SetString(text)
		case bool:
			f.SetBool(n%2 == 0)
		case int, int64:
			f.SetInt(int64(n))
		case []string:
			f.Set(reflect.ValueOf(lists[(n%4+4)%4]))
		case *Actor:
			f.Set(reflect.ValueOf([]*Actor{nil, {Subject: text}, {ClientID: text, Actor: &Actor{Subject: text}}}[(n%3+3)%3]))
		case Written:
			raw, err := json.Marshal([]string{text})
			if err != nil {
				t.Fatal(err)
			}
			f.SetString([]string{"", string(raw)}[(n%2+2)%2])
		case Confirmation:
			f.Set(reflect.ValueOf(Confirmation{JKT: text}))
		case map[string]string:
			of := map[string]string{}
			for j := range (n%3 + 3) % 3 {
				of[fmt.Sprint(text, j)] = text
			}
			f.Set(reflect.ValueOf(of))
		case map[string][]string, Details:
			of := map[string][]string{}
			for j, list := range lists[:(n%5+5)%5] {
				of[fmt.Sprint(text, j)] = list
			}
			f.Set(reflect.ValueOf(of).Convert(f.Type()))
		default:
			t.Fatalf("%s: write a case for this type here", v.Type().Field(i).Name)
		}
	}
}

// details returns Details in the types of encoding/json.
func details(d Details) map[string]any {
	if d == nil {
		return nil
	}
	out := map[string]any{}
	for name, values := range d {
		if out[name] = values; len(values) == 1 {
			out[name] = values[0]
		}
	}
	return out
}

func wantSame(t testing.TB, b Body) {
	t.Helper()
	want, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.AppendJSON([]byte("before ")); string(got) != "before "+string(want) {
		t.Errorf("%T writes %s, encoding/json %s", b, got, want)
	}
}

func checkAll(t testing.TB, text string, n int) {
	t.Helper()
	for _, b := range []Body{new(Token), new(Introspection), new(Validation), new(Error)} {
		fill(t, reflect.ValueOf(b).Elem(), text, n)
		wantSame(t, b)
		if i, ok := b.(*Introspection); ok {
			want, err := json.Marshal(details(i.UserDetails))
			if got := i.UserDetails.AppendJSON(nil); err != nil || !bytes.Equal(got, want) {
				t.Errorf("details are %s, want %s, %v", got, want, err)
			}
		}
	}
}

// TestAnswersAreThoseOfEncodingJSON: a client that compares answers byte by byte sees no difference.
func TestAnswersAreThoseOfEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		for n := -3; n <= 60; n++ {
			checkAll(t, text, n)
		}
	}
	for _, b := range []Body{
		&Token{}, &Introspection{}, &Validation{}, &Error{}, Details(nil),
		Details{},
		&Introspection{GroupPermissions: map[string][]string{"b": nil, "a": {}}},
	} {
		wantSame(t, b)
	}
	if got := string(Inactive{}.AppendJSON(nil)); got != `{"active":false}` {
		t.Errorf("Inactive is %s", got)
	}
}

func FuzzAnswers(f *testing.F) {
	for i, text := range texts {
		f.Add(text, i)
	}
	f.Fuzz(func(t *testing.T, text string, n int) { checkAll(t, text, n) })
}

// TestHeadersAreOfOneAnswer: a handler around this one that changes a value in place changes no other answer.
func TestHeadersAreOfOneAnswer(t *testing.T) {
	t.Parallel()
	for range 2 {
		w := httptest.NewRecorder()
		Write(w, http.StatusOK, Inactive{})
		want := http.Header{
			"Content-Type": {"application/json;charset=UTF-8"}, "Cache-Control": {"no-store"}, "Pragma": {"no-cache"},
			"X-Content-Type-Options": {"nosniff"},
			"Content-Length":         {"16"},
		}
		if h := w.Header(); !reflect.DeepEqual(h, want) || w.Body.String() != `{"active":false}` {
			t.Fatalf("answer %v %s, want %v", h, w.Body, want)
		}
		for name, values := range w.Header() {
			w.Header()[name] = append(values, "more") // of none of the others
			values[0] = "changed"
		}
		for name, values := range w.Header() {
			if len(values) != 2 || values[1] != "more" || values[0] != "changed" && values[0] != want[name][0] {
				t.Fatalf("%s = %q", name, values)
			}
		}
	}
	w := httptest.NewRecorder()
	if Headers(w.Header(), -1); w.Header()["Content-Length"] != nil {
		t.Error("an answer of unknown length has a Content-Length")
	}
}

// TestAnswersTakeLittleMemory: an answer takes three pieces of memory: the body, the values of the headers, and its
// length as text.
//
//nolint:paralleltest // others that run next to it would be counted
func TestAnswersTakeLittleMemory(t *testing.T) {
	w := &discard{http.Header{}}
	for _, b := range []Body{
		&Token{TokenType: "bearer", AccessToken: "ghat_example", ExpiresIn: 900, Scope: "openid profile"},
		&Introspection{Active: true, Scope: "a", ClientID: "shop", AMR: []string{"DEFAULT"}, GroupPermissions: map[string][]string{"staff": {}}},
	} {
		if n := testing.AllocsPerRun(100, func() { Write(w, http.StatusOK, b) }); n > 3 {
			t.Errorf("%T takes %v pieces, want 3 at most", b, n)
		}
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

package ida_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/ida"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ann has shown an identity card a day ago, and signs in by her bank.
var ann = authn.Assurance{
	{
		Kind: authn.EvidenceDocument, By: "desk", Level: 3, Since: now.Add(-24 * time.Hour), Document: "idcard", Reference: "case 7",
		Claims: map[string]string{"given_name": "Ann", "birthdate": "1990-12-31"},
	},
	{Kind: authn.EvidenceSignIn, By: "bank", Level: 2, Since: now.Add(-time.Hour), Claims: map[string]string{"family_name": "Berg"}},
	{
		Kind: authn.EvidenceDocument, By: "shop", Level: 4, Since: now.Add(-time.Hour), Until: now, Document: "passport",
		Claims: map[string]string{"given_name": "Anna"},
	},
}

func everything(string) bool { return true }

// TestAnswer: what is verified and asked for is told, and nothing else.
func TestAnswer(t *testing.T) {
	t.Parallel()
	const (
		card = `{"claims":{"given_name":"Ann"},"verification":{"trust_framework":"urn:gatehouse:assurance"}}`
		bank = `{"claims":{"family_name":"Berg"},"verification":{"trust_framework":"urn:gatehouse:assurance"}}`
	)
	of := func(verification, claims string) string {
		return `{"verification":` + verification + `,"claims":` + claims + `}`
	}
	for name, tt := range map[string]struct{ asked, want string }{
		"a claim": {of(`{"trust_framework":null}`, `{"given_name":null}`), card},
		"claims of two": {
			of(`{"trust_framework":null}`, `{"given_name":null,"family_name":null}`),
			"[" + card + "," + bank + "]",
		},
		"two requests": {"[" + of(`{"trust_framework":null}`, `{"family_name":null}`) + "," +
			of(`{"trust_framework":null}`, `{"given_name":null}`) + "]", "[" + bank + "," + card + "]"},
		"a claim without evidence":    {of(`{"trust_framework":null}`, `{"address":null}`), "null"},
		"what has expired":            {of(`{"trust_framework":null,"assurance_level":{"value":"4"}}`, `{"given_name":null}`), "null"},
		"another framework":           {of(`{"trust_framework":{"value":"de_aml"}}`, `{"given_name":null}`), "null"},
		"this framework among others": {of(`{"trust_framework":{"values":["de_aml","urn:gatehouse:assurance"]}}`, `{"given_name":null}`), card},
		"a level": {
			of(`{"trust_framework":null,"assurance_level":{"values":["3","4"]}}`,
				`{"given_name":null,"family_name":null}`),
			`{"claims":{"given_name":"Ann"},"verification":{"assurance_level":"3","trust_framework":"urn:gatehouse:assurance"}}`,
		},
		"the time": {
			of(`{"trust_framework":null,"time":null}`, `{"given_name":null}`),
			`{"claims":{"given_name":"Ann"},"verification":{"time":"2026-11-20T12:00:00Z","trust_framework":"urn:gatehouse:assurance"}}`,
		},
		"a time that is too long ago": {of(`{"trust_framework":null,"time":{"max_age":7200}}`, `{"given_name":null}`), "null"},
		"an age that no clock can show": {
			of(`{"trust_framework":null,"time":{"max_age":9223372036854775807}}`, `{"given_name":null}`),
			`{"claims":{"given_name":"Ann"},"verification":{"time":"2026-11-20T12:00:00Z","trust_framework":"urn:gatehouse:assurance"}}`,
		},
		"a negative age": {of(`{"trust_framework":null,"time":{"max_age":-1}}`, `{"given_name":null}`), "null"},
		"any evidence": {
			of(`{"trust_framework":null,"evidence":null}`, `{"given_name":null}`),
			`{"claims":{"given_name":"Ann"},"verification":{"evidence":[{"type":"document"}],"trust_framework":"urn:gatehouse:assurance"}}`,
		},
		"a document": {
			of(`{"trust_framework":null,"evidence":[{"type":{"value":"document"},"document_details":{"type":null}}]}`,
				`{"given_name":null,"family_name":null}`),
			`{"claims":{"given_name":"Ann"},"verification":{"evidence":[{"document_details":{"type":"idcard"},"type":"document"}],"trust_framework":"urn:gatehouse:assurance"}}`,
		},
		"another document": {of(`{"trust_framework":null,"evidence":[{"type":{"value":"document"},"document_details":{"type":{"value":"passport"}}}]}`, `{"given_name":null}`), "null"},
		"a record and its source": {
			of(`{"trust_framework":null,"evidence":[{"type":{"value":"electronic_record"},"record":{"type":null,"source":null}}]}`, `{"family_name":null}`),
			`{"claims":{"family_name":"Berg"},"verification":{"evidence":[{"record":{"source":{"name":"bank"},"type":"sign_in"},"type":"electronic_record"}],"trust_framework":"urn:gatehouse:assurance"}}`,
		},
		"a claim with its value": {of(`{"trust_framework":null}`,
			`{"given_name":{"value":"Ann"},"birthdate":{"value":"1991-01-01"}}`), card},
		"a claim with another value": {of(`{"trust_framework":null}`, `{"given_name":{"value":"Anna"}}`), "null"},
		"members that nobody knows":  {of(`{"trust_framework":null,"x":{"y":1}}`, `{"given_name":{"purpose":"we ask"}}`), card},
		"how the backend calls it":   {of(`{"trust_framework":null,"verification_process":null}`, `{"given_name":null}`), card},
	} {
		r, err := ida.Parse(json.RawMessage(tt.asked))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(r.Answer(ann, everything, now))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	r, err := ida.Parse(json.RawMessage(of(`{"trust_framework":null}`, `{"given_name":null,"birthdate":null}`)))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Answer(ann, func(claim string) bool { return claim != "birthdate" }, now); !strings.HasSuffix(encoded(t, got),
		`{"trust_framework":"urn:gatehouse:assurance"}}`) || strings.Contains(encoded(t, got), "1990") {
		t.Errorf("a claim that the client may not know is told: %s", encoded(t, got))
	}
	if got := r.Answer(nil, everything, now); got != nil {
		t.Errorf("nothing is verified: %v", got)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestMalformedRequest(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"no object": `"x"`, "null": `null`, "no verification": `{"claims":{"given_name":null}}`,
		"no framework": `{"verification":{},"claims":{"given_name":null}}`,
		"no claims":    `{"verification":{"trust_framework":null}}`, "empty claims": `{"verification":{"trust_framework":null},"claims":{}}`,
		"no requests":       `[]`,
		"many requests":     "[" + strings.Repeat(`{"verification":{"trust_framework":null},"claims":{"name":null}},`, 20) + `{}]`,
		"a text as level":   `{"verification":{"trust_framework":null,"assurance_level":"3"},"claims":{"given_name":null}}`,
		"an object":         `{"verification":{"trust_framework":null,"evidence":{}},"claims":{"given_name":null}}`,
		"a type of a type":  `{"verification":{"trust_framework":null,"evidence":[{"document_details":{"type":"idcard"}}]},"claims":{"given_name":null}}`,
		"an age that is no": `{"verification":{"trust_framework":null,"time":{"max_age":"1"}},"claims":{"given_name":null}}`,
	} {
		if _, err := ida.Parse(json.RawMessage(raw)); err == nil {
			t.Errorf("%s is taken: %s", name, raw)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"verification":{"trust_framework":null,"evidence":[{"type":{"value":"document"}}],"time":{"max_age":1}},"claims":{"given_name":{"values":["Ann"]}}}`, `[{}]`, `{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := ida.Parse(json.RawMessage(raw))
		if err != nil {
			return
		}
		if got := encoded(t, r.Answer(ann, everything, now)); strings.Contains(got, "Anna") || strings.Contains(got, "case 7") {
			t.Errorf("%s tells what has expired, or is the backend's own: %s", raw, got)
		}
	})
}

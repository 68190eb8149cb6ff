package idp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/idp"
)

func TestMapping(t *testing.T) {
	t.Parallel()
	many := make([]string, 50)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	m := idp.Mapping{
		Attributes: []idp.Attribute{
			{"mail", "email"},
			{"other", "email"},
			{"role", "branch"},
			{"many", "many"},
			{"bad", "bad"},
			{"absent", "absent"},
		},
		Constants: []idp.Constant{{"branch", "north"}, {"kind", "partner"}, {"kind", "guest"}},
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	got := m.Apply(map[string][]string{
		"mail": {" ann@example.com ", "ann@example.com"}, "other": {"ann@example.org", ""}, "role": {"admin"}, "many": many,
		"bad": {"a\x00b", "a\xff", strings.Repeat("x", idp.MaxValue+1)}, "unmapped": {"x"},
	})
	want := map[string][]string{
		"email": {"ann@example.com", "ann@example.org"}, "branch": {"north"}, "kind": {"partner", "guest"}, "many": many[:idp.MaxValues],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Apply (-want +got):\n%s", diff)
	}
}

func TestMappingRefuses(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]idp.Mapping{
		"empty attribute":   {Attributes: []idp.Attribute{{"", "email"}}},
		"empty detail":      {Attributes: []idp.Attribute{{"mail", ""}}},
		"control character": {Attributes: []idp.Attribute{{"mail", "e\nmail"}}},
		"space around":      {Attributes: []idp.Attribute{{"mail ", "email"}}},
		"twice":             {Attributes: []idp.Attribute{{"mail", "email"}, {"mail", "email"}}},
		"constant's name":   {Constants: []idp.Constant{{"", "x"}}},
		"constant's value":  {Constants: []idp.Constant{{"kind", strings.Repeat("x", idp.MaxValue+1)}}},
	} {
		if err := m.Validate(); err == nil {
			t.Errorf("Validate(%s) = nil, want an error", name)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"no_existing_customer":   "no_existing_customer",
		"<b>\"x\"\\\r\né":        "<b>?x?????",
		strings.Repeat("x", 300): strings.Repeat("x", 256),
	} {
		if got := idp.Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestUnseen: a mapped attribute that has come in none of many sign-ins is named with those that came, by their names
// alone, and not where another attribute has filled in the same detail.
func TestUnseen(t *testing.T) {
	t.Parallel()
	m := idp.Watch(idp.Mapping{Attributes: []idp.Attribute{
		{"mial", "email"},
		{"mobile", "phone_number"},
		{"telephoneNumber", "phone_number"},
		{"sn", "family_name"},
		{"once", "team"},
	}})
	raw := map[string][]string{"mail": {"ann@example.com"}, "telephoneNumber": {"+31201234567"}, "sn": {""}, "mial": nil}
	m.Apply(map[string][]string{"once": {"x"}})
	for n := 1; n < 19; n++ {
		m.Apply(raw)
	}
	if got := m.Unseen(); got != nil {
		t.Errorf("Unseen after 19 sign-ins = %v, want none", got)
	}
	m.Apply(raw)
	want := []idp.Warning{{
		Reason: "map mial email: the attribute has come in none of 20 sign-ins",
		Advice: "write the name as the provider does, or remove the line; other attributes that have come: mail",
	}}
	if diff := cmp.Diff(want, m.Unseen()); diff != "" {
		t.Errorf("Unseen (-want +got):\n%s", diff)
	}
}

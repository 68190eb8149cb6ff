package person_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

func TestParsePhone(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"+31 6 12345678": "+31612345678", "0031-6-1234.5678": "+31612345678", "+44 (0)20 7946 0018": "+442079460018",
		"tel:+1-201-555-0123": "+12015550123", " +31612345678 ": "+31612345678",
		"+49 30/901820": "+4930901820",
		"06 12345678":   "", "31612345678": "", "+0612345678": "", "+31 6 1234x678": "", "+": "", "": "", "+123456": "", "+1234567890123456": "",
		"+31612345678;ext=1":        "",
		"+31612345678,+31612345679": "", "+3161234\r\n5678": "", "+٣١٦١٢٣٤٥٦٧٨": "",
	} {
		got, ok := person.ParsePhone(typed)
		if ok != (want != "") || ok && got != want {
			t.Errorf("ParsePhone(%q) = %q, %v, want %q", typed, got, ok, want)
		}
	}
	if got := person.MaskPhone("+31612345678"); got != "•••\u00a0678" {
		t.Errorf("MaskPhone = %q", got)
	}
}

func TestTextNumber(t *testing.T) {
	t.Parallel()
	p := person.Profile{PhoneNumbers: []person.PhoneNumber{
		{Value: "+31 6 1", Verified: true},
		{Value: "+31 6 11111111"},
		{Value: "+31 6 22222222", Verified: true},
		{Value: "+31 6 33333333", Verified: true, Primary: true},
		{Value: "06 44444444", Verified: true},
	}}
	if got := person.TextNumber(&p); got != "+31633333333" {
		t.Errorf("TextNumber = %q, want the primary one", got)
	}
	p.PhoneNumbers[3].Verified = false
	if got := person.TextNumber(&p); got != "+31622222222" {
		t.Errorf("TextNumber = %q, want another verified one", got)
	}
}

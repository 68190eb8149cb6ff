package account_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

const addressPage = "/account/profile/address"

var shownWas = regexp.MustCompile(`name="was" value="([^"]*)"`)

// streets returns the streets of a person's addresses, with the primary one marked.
func streets(d person.Details) (out []string) {
	for _, a := range d.Profile.Addresses {
		text := a.Street()
		if a.Primary {
			text += " primary"
		}
		out = append(out, text)
	}
	return out
}

// TestAddresses: a person adds, changes and removes addresses besides the primary one, and makes another one primary.
func TestAddresses(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	want := func(what string, list ...string) {
		t.Helper()
		if got := streets(h.Details(identitytest.Demo)); !slices.Equal(got, list) {
			t.Errorf("%s: addresses = %q, want %q", what, got, list)
		}
	}
	if strings.Contains(b.Get("/account/profile").Body.String(), addressPage) {
		t.Error("who has no address is led to another one")
	}
	wantDone(t, "the first", sendTo(b, "/account/profile", "form", "address", "street", "Main Street", "house_number", "12"),
		"/account/profile?done=saved")
	if page := b.Get("/account/profile"); !strings.Contains(page.Body.String(), `href="`+addressPage+`"`) {
		t.Errorf("the profile does not lead to another address:\n%s", page.Body)
	}
	wantDone(t, "another", sendTo(b, addressPage, "do", "save", "was", "", "street", "Work <b>", "house_number", "3", "city", "Utrecht",
		"country", "nl"), "/account/profile?done=saved")
	wantDone(t, "a third", sendTo(b, addressPage, "do", "save", "was", "", "street", "Summer Lane"), "/account/profile?done=saved")
	want("added", "Main Street 12 primary", "Work <b> 3", "Summer Lane")

	profile := b.Get("/account/profile")
	if body := profile.Body.String(); !strings.Contains(body, "Work &lt;b&gt; 3, Utrecht, NL") ||
		!strings.Contains(body, "<b>Main Street 12</b>") || strings.Count(body, addressPage+"?n=") != 2 {
		t.Errorf("the profile does not show them:\n%s", body)
	}
	page := b.Get(addressPage + "?n=1")
	was := shownWas.FindStringSubmatch(page.Body.String())
	if was == nil || !strings.Contains(page.Body.String(), `value="Work &lt;b&gt;"`) {
		t.Fatalf("the page of an address = %d:\n%s", page.Code, page.Body)
	}
	wantDone(t, "the change", b.Fill(page, addressPage, "do", "save", "was", was[1], "street", "Office Street", "house_number", "4"),
		"/account/profile?done=saved")
	want("changed", "Main Street 12 primary", "Office Street 4", "Summer Lane")
	wantDone(t, "the change of what is another by now", b.Fill(page, addressPage, "do", "remove", "was", was[1]), "/account/profile")
	want("as it was", "Main Street 12 primary", "Office Street 4", "Summer Lane")

	of := func(n int) string {
		t.Helper()
		m := shownWas.FindStringSubmatch(b.Get(fmt.Sprintf("%s?n=%d", addressPage, n)).Body.String())
		if m == nil {
			t.Fatalf("no page for the address %d", n)
		}
		return m[1]
	}
	wantDone(t, "the primary one", b.Fill(page, addressPage, "do", "primary", "was", of(2)), "/account/profile?done=primary")
	want("another primary one", "Main Street 12", "Office Street 4", "Summer Lane primary")
	if body := b.Get("/account/profile?edit=address").Body.String(); !strings.Contains(body, `value="Summer Lane"`) {
		t.Errorf("the form of the profile is not about the primary one:\n%s", body)
	}
	wantDone(t, "the removal", b.Fill(page, addressPage, "do", "remove", "was", of(1)), "/account/profile?done=removed")
	want("removed", "Main Street 12", "Summer Lane primary")
	wantDone(t, "the primary one, emptied", sendTo(b, "/account/profile", "form", "address", "street", ""), "/account/profile?done=saved")
	want("emptied", "Main Street 12 primary")
	if n := h.Events()["person.PersonUpdatedEvent"]; n != 7 {
		t.Errorf("%d events, want one of each change", n)
	}
	h.CheckInvariants()
}

// TestAddressesAlike: each of several identical addresses can be removed or made the primary one. API clients can
// create such addresses.
func TestAddressesAlike(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do   string
		want []string
	}{
		"removed": {"remove", []string{"Main Street primary", "Main Street"}},
		"primary": {"primary", []string{"Main Street", "Main Street primary", "Main Street"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b, _, _ := dashboard(t)
			if _, err := h.Person.UpdatePerson(t.Context(), h.Details(identitytest.Demo).ID, person.Edit{By: identitytest.Ops},
				func(_ storage.Tx, d *person.Details) error {
					d.Profile.Addresses = []person.Address{{StreetName: "Main Street"}, {StreetName: "Main Street"}, {StreetName: "Main Street"}}
					return nil
				}); err != nil {
				t.Fatal(err)
			}
			was := shownWas.FindStringSubmatch(b.Get(addressPage + "?n=1").Body.String())
			if was == nil {
				t.Fatal("no page for the second address")
			}
			wantDone(t, tt.do, b.Fill(b.Get("/account/profile"), addressPage, "do", tt.do, "was", was[1]), "/account/profile?done="+name)
			if got := streets(h.Details(identitytest.Demo)); !slices.Equal(got, tt.want) {
				t.Errorf("addresses = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAddressAttacks(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	add := func(n int) {
		t.Helper()
		if _, err := h.Person.UpdatePerson(t.Context(), h.Details(identitytest.Demo).ID, person.Edit{By: identitytest.Ops},
			func(_ storage.Tx, d *person.Details) error {
				d.Profile.Addresses = nil
				for i := range n {
					d.Profile.Addresses = append(d.Profile.Addresses,
						person.Address{StreetName: fmt.Sprintf("Street %d", i), Primary: i == 1, CompanyName: "Acme", Tag: "work"})
				}
				return nil
			}); err != nil {
			t.Fatal(err)
		}
	}
	add(2)
	form := b.Get(addressPage)
	before := streets(h.Details(identitytest.Demo))
	for name, fields := range map[string][]string{
		"nothing":                   {"do", "save", "was", ""},
		"a country that is none":    {"do", "save", "was", "", "street", "x", "country", "XX"},
		"a house number":            {"do", "save", "was", "", "street", "x", "house_number", "-1"},
		"attack 239: a line end":    {"do", "save", "was", "", "street", "a\r\nb"},
		"attack 239: sixty kB":      {"do", "save", "was", "", "street", strings.Repeat("a", 60_000)},
		"an address that is not":    {"do", "save", "was", "x", "street", "Evil"},
		"the main one, removed":     {"do", "remove", "was", ""},
		"something else":            {"do", "verify", "was", ""},
		"attack 282: no form token": nil,
	} {
		t.Run(name, func(t *testing.T) {
			a := b.Fill(form, addressPage, fields...)
			if fields == nil {
				a = b.Do(http.MethodPost, addressPage, "do=save&street=Evil")
			}
			if to := a.Header().Get("Location"); a.Code >= 500 || strings.Contains(to, "done=") {
				t.Errorf("the form = %d to %q", a.Code, to)
			}
			if strings.Contains(a.Body.String(), "aaaaaaaaaa") {
				t.Error("the page shows what is too long")
			}
			if got := streets(h.Details(identitytest.Demo)); !slices.Equal(got, before) {
				t.Errorf("addresses = %q, want %q", got, before)
			}
		})
	}
	for _, n := range []string{"1", "2", "99", "-1", "x"} { // the primary one, and pages that do not exist
		if a := b.Get(addressPage + "?n=" + n); a.Code != http.StatusOK || strings.Contains(a.Body.String(), `value="Street`) &&
			a.URL != "/account/profile" {
			t.Errorf("the page of %s = %d at %s", n, a.Code, a.URL)
		}
	}
	// Details that the form does not show are kept.
	was := shownWas.FindStringSubmatch(b.Get(addressPage + "?n=0").Body.String())[1]
	wantDone(t, "a change", b.Fill(form, addressPage, "do", "save", "was", was, "street", "Other Street", "company_name", "Evil", "primary",
		"true"), "/account/profile?done=saved")
	if got := h.Details(identitytest.Demo).Profile.Addresses[0]; got != (person.Address{
		StreetName:  "Other Street",
		CompanyName: "Acme", Tag: "work",
	}) {
		t.Errorf("the address = %+v", got)
	}
	add(20)
	if a := b.Fill(form, addressPage, "do", "save", "was", "", "street", "one more"); a.Code != http.StatusUnprocessableEntity ||
		len(h.Details(identitytest.Demo).Profile.Addresses) != 20 {
		t.Errorf("one more than there can be = %d", a.Code)
	}
	t.Run("attack 266: a session below the level of the account pages", func(t *testing.T) {
		u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 3
		if a := b.Fill(form, addressPage, "do", "save", "was", "", "street", "Evil"); strings.Contains(a.Header().Get("Location"), "done=") {
			t.Errorf("the form = %d to %q", a.Code, a.Header().Get("Location"))
		}
	})
	h.CheckInvariants()
}

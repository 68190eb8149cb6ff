package scim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	t.Run("attack 244: every path and method without credentials, with wrong ones, while switched off", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		for _, path := range []string{
			"/Users", "/Users/x", "/Users/.search", "/Groups", "/Groups/x", "/Groups/.search", "/Bulk", "/ServiceProviderConfig",
			"/Schemas", "/Schemas/" + coreUser,
			"/ResourceTypes", "/ResourceTypes/User", "/Nothing", "/",
		} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"} {
				for credentials, want := range map[string]int{"": 401, "Bearer bad": 401, "Basic Og==": 401, "Bearer weak": 403, "Bearer down": 503} {
					h.header.Set("Authorization", credentials)
					a := h.do(method, path, "")
					if a.status != want {
						t.Errorf("%s %s with %q: status %d, want %d", method, path, credentials, a.status, want)
					}
					if want == 401 && len(a.header.Values("WWW-Authenticate")) != 2 {
						t.Errorf("%s %s: challenges %v, want Bearer and Basic", method, path, a.header.Values("WWW-Authenticate"))
					}
				}
				h.header.Set("Authorization", "Bearer good")
				h.off = true
				if a := h.do(method, path, ""); a.status != 503 || a.header.Get("Retry-After") == "" {
					t.Errorf("%s %s while switched off: status %d, want 503", method, path, a.status)
				}
				h.off = false
			}
		}
		for path, allow := range map[string]string{
			"/Users": "GET, POST", "/Bulk": "POST", "/Schemas": "GET",
			"/Users/x": "DELETE, GET, PATCH, PUT",
		} {
			if a := h.want(405, "TRACE", path, nil); a.header.Get("Allow") != allow {
				t.Errorf("TRACE %s: Allow %q, want %q", path, a.header.Get("Allow"), allow)
			}
		}
	})
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", nil)
	before := h.want(200, "GET", "/Users/"+id, nil).raw
	put := func(t *testing.T, body string) {
		t.Helper()
		a := h.do("PUT", "/Users/"+id, body)
		if a.status != 400 && a.status != 413 {
			t.Errorf("PUT %.80s: status %d, want 400 or 413", body, a.status)
		}
		if strings.Contains(a.raw, "goroutine") || strings.Contains(a.raw, ".go:") || strings.Contains(a.raw, "map[") {
			t.Errorf("PUT %.80s: the answer tells of the inside: %s", body, a.raw)
		}
	}
	spare := h.add("spare", nil)
	leftOut := func(t *testing.T, body string) {
		t.Helper()
		a := h.want(200, "PUT", "/Users/"+spare, strings.ReplaceAll(body, `"anna"`, `"spare"`))
		if a.header.Get("Gatehouse-Left-Out") == "" || a.at("nickName") != "" || a.at(ours, "state") != "ACTIVE" ||
			a.at(ours, "emailVerified") == "true" {
			t.Errorf("PUT %.80s: %s, want it left out and named", body, a.raw)
		}
	}
	t.Run("attack 241: verified cannot be set", func(t *testing.T) {
		leftOut(t, user(`"userName":"anna","emails":[{"value":"boss@example.com","verified":true}]`))
		leftOut(t, user(`"userName":"anna","phoneNumbers":[{"value":"+31201234567","verified":true}]`))
		leftOut(t, user(`"userName":"anna","email_verified":true`))
		other := h.add("boss", map[string]any{
			"emails": []any{map[string]any{"value": "boss@example.com"}},
			ours:     map[string]any{"emailVerified": true},
		})
		if got := h.want(200, "GET", "/Users/"+other, nil).at(ours, "emailVerified"); got != "false" {
			t.Errorf("emailVerified = %s, want false", got)
		}
	})
	t.Run("attack 248: members that cannot be set", func(t *testing.T) {
		for _, member := range []string{
			"enabled", "removable", "role", "verified", "password_hash", "private_key", "organisation", "epoch",
			"State", "__proto__", "constructor",
		} {
			leftOut(t, user(`"userName":"anna","`+member+`":true`))
		}
		a := h.want(200, "PUT", "/Users/"+id,
			user(`"userName":"anna","id":"00000000-0000-4000-8000-000000000000","meta":{"created":"1970-01-01T00:00:00Z"},"groups":[{"value":"x"}],"`+ours+`":{"state":"REMOVED","partition":"other"}`))
		if a.raw != before {
			t.Errorf("PUT of read-only attributes:\n%s\nwant\n%s", a.raw, before)
		}
	})
	t.Run("attack 249: members twice, in other case, in letters that look alike", func(t *testing.T) {
		put(t, user(`"userName":"anna","active":false,"Active":true`))
		put(t, user(`"userName":"anna","userName":"anna"`))
		put(t, user(`"userName":"anna","name":{"givenName":"a","GIVENNAME":"b"}`))
		put(t, user(`"userName":"anna","u\u0073erName":"b"`))
		leftOut(t, user(`"userName":"anna","nic`+"\u212a"+`Name":"kelvin"`))
		leftOut(t, user(`"userName":"anna","pa`+"\u017f"+`sword":"correct horse 1"`))
	})
	t.Run("attack 251: deep, wide, long, large", func(t *testing.T) {
		put(t, user(`"userName":"anna","name":`+strings.Repeat("[", 100_000)))
		put(t, user(`"userName":"anna","name":`+strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)))
		put(t, user(`"userName":"anna","nickName":"`+strings.Repeat("x", 2<<20)+`"`))
		leftOut(t, user(`"userName":"anna","nickName":`+strings.Repeat("1", 500_000)))
		leftOut(t, user(`"userName":"anna","emails":[`+strings.Repeat(`{"value":"a@b.example"},`, 20_000)+`{"value":"c@b.example"}]`))
		put(t, user(`"userName":"anna","emails":[`+strings.Repeat(`0,`, 200_000)+`0]`))
		var wide strings.Builder
		for i := range 60_000 {
			fmt.Fprintf(&wide, `,"k%d":1`, i)
		}
		put(t, user(`"userName":"anna"`+wide.String()))
		put(t, user(`"userName":"anna","nickName":"`+"\xff\xfe"+`"`))
	})
	t.Run("attack 257: a form of another site", func(t *testing.T) {
		for _, kind := range []string{
			"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
			"application/json; charset=utf-16", "a, application/json",
		} {
			h.header.Set("Content-Type", kind)
			h.refused(415, "", "POST", "/Users", user(`"userName":"mallory"`))
		}
		h.header.Set("Content-Type", "application/json; charset=UTF-8")
		h.want(200, "PUT", "/Users/"+id, user(`"userName":"anna"`))
		h.header.Del("Content-Type")
	})
	t.Run("attack 247: malformed ids", func(t *testing.T) {
		for _, bad := range []string{
			"..%2f..%2fetc", "%00", "'%20OR%201=1--", strings.Repeat("x", 10_000), "%7Benv.X%7D", "%ff",
			"........-....-....-....-............",
		} {
			for _, at := range []string{"/Users/", "/Groups/", "/Schemas/", "/ResourceTypes/"} {
				h.refused(404, "", "GET", at+bad, nil)
			}
		}
	})
	if after := h.want(200, "GET", "/Users/"+id, nil).raw; after != before {
		t.Errorf("hostile requests changed the user:\n%s\n%s", before, after)
	}
	if n := h.identity.Panics(); n != 0 {
		t.Errorf("%d panics, want none", n)
	}
}

// TestNamedPartitions: where the partitions have names, another one is refused and does not just look empty.
func TestNamedPartitions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *identity.Config) { c.Partitions = person.PartitionConfig{On: true, Names: []string{"acme"}} })
	for partition, want := range map[string]int{"acme": 200, "default": 200, "nobody": 403} {
		h.header[scimHeader] = []string{partition}
		if want == 200 {
			h.want(200, "GET", "/Users", nil)
			continue
		}
		t.Run("attack 261: a partition that there is not", func(t *testing.T) { h.refused(want, "", "GET", "/Users", nil) })
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *identity.Config) { c.Partitions = person.PartitionConfig{On: true} })
	in := func(partition ...string) { h.header[scimHeader] = partition }
	in("acme")
	anna := h.add("anna", map[string]any{
		"password": password, "emails": []any{map[string]any{"value": "anna@acme.example"}},
		"externalId": "e",
	})
	group := h.addGroup("staff", anna)
	in("default")
	other := h.add("anna", nil)
	t.Run("attack 261: the header missing, of another partition, twice", func(t *testing.T) {
		for _, values := range [][]string{nil, {""}, {"acme", "acme"}, {"acme", "default"}, {"../x"}, {"ACME!"}, {strings.Repeat("x", 1000)}} {
			in(values...)
			for _, at := range []string{"/Users", "/Users/" + anna, "/Groups", "/Bulk"} {
				h.refused(400, "invalidValue", "GET", at, nil)
			}
		}
	})
	t.Run("attack 246: what belongs to another partition is not there", func(t *testing.T) {
		for _, partition := range []string{"default", "nobody"} {
			in(partition)
			h.refused(404, "", "GET", "/Users/"+anna, nil)
			h.refused(404, "", "PUT", "/Users/"+anna, user(`"userName":"stolen"`))
			h.refused(404, "", "PATCH", "/Users/"+anna, patch("replace", "active", false))
			h.refused(404, "", "DELETE", "/Users/"+anna, nil)
			for _, filter := range []string{
				`id+eq+"` + anna + `"`, `emails+eq+"anna@acme.example"`, `externalId+eq+"e"`,
				`groups.display+eq+"staff"`,
			} {
				if n := h.want(200, "GET", "/Users?filter="+filter, nil).at("totalResults"); n != "0" {
					t.Errorf("%s: filter %s finds %s, want 0", partition, filter, n)
				}
			}
			h.refused(404, "", "GET", "/Groups/"+group, nil)
			h.refused(404, "", "PUT", "/Groups/"+group, `{"schemas":["`+coreGroup+`"],"displayName":"taken"}`)
			h.refused(404, "", "PATCH", "/Groups/"+group, patch("add", "members", []any{map[string]any{"value": other}}))
			h.refused(404, "", "PATCH", "/Groups/"+group, patch("replace", "displayName", "renamed"))
			h.refused(404, "", "DELETE", "/Groups/"+group, nil)
			for _, filter := range []string{`id+eq+"` + group + `"`, `displayName+eq+"staff"`, `displayName+pr`, `members+pr`} {
				if n := h.want(200, "GET", "/Groups?filter="+filter, nil).at("totalResults"); n != "0" {
					t.Errorf("%s: filter %s of groups finds %s, want 0", partition, filter, n)
				}
			}
		}
		in("default")
		own := h.addGroup("staff", other) // the name is free here, and another group
		h.refused(400, "invalidValue", "PATCH", "/Groups/"+own, patch("add", "members", []any{map[string]any{"value": anna}}))
		h.refused(400, "invalidValue", "POST", "/Groups",
			map[string]any{"schemas": []string{coreGroup}, "displayName": "new", "members": []any{map[string]any{"value": anna}}})
		h.want(204, "PATCH", "/Groups/"+own, patch("remove", `members[value eq "`+anna+`"]`, nil))
		h.want(204, "PATCH", "/Groups/"+own, patch("replace", oursGroup+":permissions", []any{"everything"}))
		h.want(204, "DELETE", "/Groups/"+own, nil)
		in("acme")
		if got := h.want(200, "GET", "/Users/"+anna, nil); got.at("userName") != "anna" || got.at("active") != "true" ||
			got.at(ours, "partition") != "acme" || got.at("groups", 0, "value") != group {
			t.Errorf("after requests of others: %s", got.raw)
		}
	})
	in("default")
	if got := h.want(200, "GET", "/Users", nil); got.names() != "anna" || got.at("Resources", 0, "id") != other ||
		got.at("totalResults") != "1" {
		t.Errorf("users of the default partition: %s", got.raw)
	}
	h.refused(400, "invalidValue", "POST", "/Users", user(`"userName":"acme\\eve"`))
	if h.groupsOf(anna) != `acme\staff` || h.groupsOf(other) != "" {
		t.Errorf("groups: %q of anna in acme, %q of anna in the default partition", h.groupsOf(anna), h.groupsOf(other))
	}
	err := h.store.View(t.Context(), func(tx storage.Tx) error {
		p, err := h.identity.Person.Permissions(tx, "acme", []string{"staff"})
		if got := fmt.Sprint(p); got != "map[staff:[]]" {
			t.Errorf("permissions in acme = %s", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.refused(400, "invalidValue", "PATCH", "/Users/"+other, patch("replace", "userName", `acme\anna`))
}

// TestLimitedToPartitions: an API client with partitions works in those alone, and does not name the only one.
func TestLimitedToPartitions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *identity.Config) { c.Partitions = person.PartitionConfig{On: true} })
	h.header[scimHeader] = []string{"globex"}
	other := h.add("ben", nil)
	group := h.addGroup("staff", other)
	h.only = []string{"acme"}
	h.header.Del(scimHeader)
	id := h.add("anna", nil)
	if got := h.want(200, "GET", "/Users/"+id, nil); got.at(ours, "partition") != "acme" {
		t.Errorf("partition of the new person: %s", got.raw)
	}
	t.Run("peer 42: what belongs to another partition", func(t *testing.T) {
		for _, partition := range []string{"globex", "default", "acme2", "acm", "acme,globex", "ACME"} {
			h.header[scimHeader] = []string{partition}
			for _, at := range []string{"/Users", "/Users/" + other, "/Groups", "/Groups/" + group} {
				h.refused(403, "", "GET", at, nil)
			}
			h.refused(403, "", "POST", "/Bulk", bulk(op("DELETE", "/Users/"+other, "", nil)))
		}
		h.header.Del(scimHeader)
		h.refused(404, "", "GET", "/Users/"+other, nil)
		h.refused(404, "", "DELETE", "/Groups/"+group, nil)
		if a := h.want(200, "POST", "/Bulk", bulk(op("DELETE", "/Users/"+other, "", nil))); a.at("Operations", 0, "status") != "404" {
			t.Errorf("Bulk: %s", a.raw)
		}
	})
	h.only = []string{"acme", "globex"}
	h.refused(400, "invalidValue", "GET", "/Users", nil)
	h.header[scimHeader] = []string{"globex"}
	h.want(200, "GET", "/Users/"+other, nil)
	t.Run("discovery needs no partition", func(t *testing.T) {
		h.header.Del(scimHeader)
		h.only = nil
		for _, at := range []string{"/ServiceProviderConfig", "/ResourceTypes", "/ResourceTypes/User", "/Schemas", "/Schemas/" + coreUser} {
			h.want(200, "GET", at, nil)
		}
		h.refused(400, "invalidValue", "GET", "/Users", nil)
	})
}

// TestBackslashInUsername: a username that reads like that of a person of a partition, while partitions are off or on.
func TestBackslashInUsername(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		h := newHarness(t, func(c *identity.Config) { c.Partitions = person.PartitionConfig{On: on} })
		h.header[scimHeader] = []string{"default"}
		id := h.add("anna", nil)
		for _, name := range []string{`acme\anna`, `\anna`, `anna\`, "acme\uff3canna"} {
			t.Run("attack: a username "+name, func(t *testing.T) {
				h.refused(400, "invalidValue", "POST", "/Users", map[string]any{"schemas": []string{coreUser}, "userName": name})
				h.refused(400, "invalidValue", "PATCH", "/Users/"+id, patch("replace", "userName", name))
			})
		}
	}
}

const scimHeader = "X-Service-Persons-Partition-Id"

func TestStorageIsDown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", nil)
	h.header.Set("Authorization", "Bearer down")
	a := h.want(503, "GET", "/Users/"+id, nil)
	if a.header.Get("Retry-After") == "" || strings.Contains(a.raw, "storage") {
		t.Errorf("while storage is down: %v %s", a.header, a.raw)
	}
	h.header.Set("Authorization", "Bearer good")
	if a := h.do(http.MethodGet, "/Users/"+id, nil); a.status != 200 {
		t.Errorf("afterwards: status %d, want 200", a.status)
	}
}

// TestAddressesOfPages: profileUrl and photos become claims of which applications make links.
func TestAddressesOfPages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", map[string]any{
		"profileUrl": "https://example.com/~anna",
		"photos":     []any{map[string]any{"value": "HTTP://example.com/a.png"}},
	})
	for _, at := range []string{
		"javascript:alert(document.cookie)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)",
		"javascript://example.com/%0aalert(1)", "data:text/html,<script>alert(1)</script>",
		"vbscript:x", "file:///etc/passwd", "//example.com/x", "/x", "x", "https:example.com", "https://",
		"https://a:b@example.com/", "ftp://example.com/",
	} {
		t.Run("attack: a claim that runs as a script: "+at, func(t *testing.T) {
			for name, body := range map[string]any{
				"profileUrl": patch("replace", "profileUrl", at), "photos": patch("add", "photos", []any{map[string]any{"value": at}}),
			} {
				a := h.want(http.StatusOK, "PATCH", "/Users/"+id, body)
				if a.header.Get("Gatehouse-Left-Out") != name || a.at("profileUrl") != "" && a.at("profileUrl") != "https://example.com/~anna" ||
					a.at("photos", 1) != "" {
					t.Errorf("PATCH keeps %s: %s", name, a.raw)
				}
			}
		})
	}
	if got := h.want(200, "GET", "/Users/"+id, nil); got.at("photos", 0, "value") != "HTTP://example.com/a.png" {
		t.Errorf("afterwards: %s", got.raw)
	}
}

// TestBirthDateInTheFuture: a date that no one can have been born on.
func TestBirthDateInTheFuture(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := h.want(http.StatusCreated, "POST", "/Users",
		map[string]any{"schemas": []string{coreUser}, "userName": "eve", ours: map[string]any{"dateOfBirth": "2999-01-01"}})
	id := h.add("anna", map[string]any{ours: map[string]any{"dateOfBirth": "2026-11-21"}})
	b := h.want(http.StatusOK, "PATCH", "/Users/"+id, patch("replace", ours+":dateOfBirth", "2026-11-23"))
	if a.at(ours, "dateOfBirth") != "" || b.at(ours, "dateOfBirth") != "" || a.header.Get("Gatehouse-Left-Out") != ours+":dateOfBirth" {
		t.Errorf("a date in the future is kept: %s %s", a.raw, b.raw)
	}
}

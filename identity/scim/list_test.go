package scim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// crowd adds six persons that filters distinguish.
func crowd(h *harness) map[string]string {
	ids := map[string]string{}
	for _, p := range []struct {
		name string
		more map[string]any
	}{
		{"anna@example.com", map[string]any{"title": "Boss", "userType": "Employee", "emails": []any{
			map[string]any{"value": "anna@example.com", "type": "work", "primary": true},
			map[string]any{"value": "anna@home.example", "type": "home"},
		}}},
		{"ben", map[string]any{
			"title": "Guide", "externalId": "B-1", "active": false,
			"emails": []any{map[string]any{"value": "ben@home.example", "type": "home"}},
		}},
		{"Carla", map[string]any{"userType": "Intern", "name": map[string]any{"familyName": "O'Malley"}, "nickName": `quote " and \ slash`}},
		{"dora", map[string]any{
			"title": "guide", "userType": "Employee",
			enterprise: map[string]any{"department": "Sales", "manager": map[string]any{"value": "m-1"}},
		}},
		{"emil", map[string]any{
			"locale": "de-DE",
			ours:     map[string]any{"customAttributes": []any{map[string]any{"name": "floor", "value": "3"}}},
		}},
		{"zoë", map[string]any{"roles": []any{map[string]any{"value": "admin", "primary": true}}}},
	} {
		ids[p.name] = h.add(p.name, p.more)
	}
	return ids
}

func TestFilters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ids := crowd(h)
	h.addGroup("staff", ids["ben"], ids["dora"])
	for filter, want := range map[string]string{
		`userName eq "ANNA@example.com"`:   "anna@example.com",
		`userName eq "nobody"`:             "",
		`USERNAME Eq "ben"`:                "ben",
		coreUser + `:userName eq "ben"`:    "ben",
		`userName sw "a"`:                  "anna@example.com",
		`userName co "A"`:                  "anna@example.com Carla dora",
		`userName ew "L"`:                  "emil",
		`userName gt "dora"`:               "emil zoë",
		`userName ge "dora"`:               "dora emil zoë",
		`userName lt "ben"`:                "anna@example.com",
		`userName le "ben"`:                "anna@example.com ben",
		`userName ne "ben"`:                "anna@example.com Carla dora emil zoë",
		`title pr`:                         "anna@example.com ben dora",
		`not (title pr)`:                   "Carla emil zoë",
		`not(title pr)and userName sw "e"`: "emil",
		`title eq "GUIDE"`:                 "ben dora",
		`title eq null`:                    "Carla emil zoë",
		`title ne null`:                    "anna@example.com ben dora",

		`title eq "guide" and userType eq "Employee"`:                      "dora",
		`title eq "boss" or title eq "guide" and userType eq "Employee"`:   "anna@example.com dora",
		`(title eq "boss" or title eq "guide") and userType eq "Employee"`: "anna@example.com dora",
		`(userName eq "ben" or userName eq "dora") and title pr`:           "ben dora",

		`externalId eq "B-1"`:         "ben",
		`externalId eq "b-1"`:         "",
		`id eq "` + ids["dora"] + `"`: "dora",
		`id eq "x"`:                   "",

		`emails eq "ANNA@home.example"`:                                "anna@example.com",
		`emails.value ew "home.example"`:                               "anna@example.com ben",
		`emails[type eq "home"]`:                                       "anna@example.com ben",
		`emails[type eq "work" and value co "home"]`:                   "",
		`emails[type eq "home" and value eq "ben@home.example"]`:       "ben",
		`emails[not (type eq "home")]`:                                 "anna@example.com",
		`emails.type eq "work"`:                                        "anna@example.com",
		`emails pr`:                                                    "anna@example.com ben",
		`active eq false`:                                              "ben",
		`active ne true`:                                               "ben",
		`active eq "False"`:                                            "ben",
		`name.familyName eq "o'malley"`:                                "Carla",
		`name pr`:                                                      "Carla",
		`nickName eq "quote \" and \\ slash"`:                          "Carla",
		enterprise + `:department eq "sales"`:                          "dora",
		enterprise + `:manager.value eq "m-1"`:                         "dora",
		enterprise + `:manager pr`:                                     "dora",
		enterprise + ` pr`:                                             "dora",
		ours + `:customAttributes[name eq "floor" and value eq "3"]`:   "emil",
		ours + `:customAttributes.value eq "3"`:                        "emil",
		ours + `:state eq "INACTIVE"`:                                  "ben",
		`roles.primary eq true`:                                        "zoë",
		`userName eq "zo\u00eb"`:                                       "zoë",
		`groups.display eq "staff"`:                                    "ben dora",
		`groups[display eq "STAFF" and type eq "direct"]`:              "ben dora",
		`meta.created gt "2020-01-01T00:00:00Z" and userName eq "ben"`: "ben",
		`meta.lastModified lt "2020-01-01T00:00:00+01:00"`:             "",
		`meta.resourceType eq "User" and userName eq "ben"`:            "ben",
		`schemas eq "` + enterprise + `"`:                              "dora",
	} {
		a := h.want(http.StatusOK, "GET", "/Users?filter="+url.QueryEscape(filter), nil)
		if got := a.names(); got != want {
			t.Errorf("filter %s finds %q, want %q", filter, got, want)
		}
		if n := strconv.Itoa(len(strings.Fields(want))); a.at("totalResults") != n || a.at("itemsPerPage") != n {
			t.Errorf("filter %s: totalResults %s, itemsPerPage %s, want %s", filter, a.at("totalResults"), a.at("itemsPerPage"), n)
		}
	}
}

func TestBadFilters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, filter := range []string{
		`userName`, `userName eq`, `userName eq ben`, `userName is "ben"`, `eq "ben"`, `userName eq "ben`, `userName eq "ben" and`,
		`userName eq "ben" or or`,
		`(userName eq "ben"`, `userName eq "ben")`, `not userName eq "ben"`, `not ()`, `()`, `nothing eq "x"`,
		`name.nothing eq "x"`, `userName.value eq "x"`,
		`password eq "x"`, `password pr`, `password sw "c"`, `active gt true`, `active eq "perhaps"`, `active co "t"`,
		`userName eq 7`, `userName eq true`,
		`userName gt null`, `name eq "x"`, enterprise + `:manager eq 5`, `emails[type eq "work"`, `emails[]`, `emails[nothing eq "x"]`,
		`userName[value eq "x"]`,
		`emails[value[type eq "x"]]`, `meta.created gt "yesterday"`, `x509Certificates gt "AAAA"`, `userName eq "\x"`,
		`userName eq "a" userName eq "b"`,
		`userName eq {"a":1}`, `userName eq ["a"]`, "userName eq \"a\x00\"", "userName eq \"a\xff\"", `userNаme eq "cyrillic a"`,
		strings.Repeat("(", 10_000), strings.Repeat("not (", 50) + `title pr` + strings.Repeat(")", 50),
		strings.Repeat("(", 17) + `title pr` + strings.Repeat(")", 17),
		strings.Repeat(`title pr and `, 200) + `title pr`, `title eq "` + strings.Repeat("x", 5000) + `"`,
		strings.Repeat("emails[", 30) + `type pr` + strings.Repeat("]", 30),
	} {
		h.refused(400, "invalidFilter", "GET", "/Users?filter="+url.QueryEscape(filter), nil)
	}
}

func TestSortingAndPaging(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	crowd(h)
	for query, want := range map[string]string{
		"":                                     "anna@example.com ben Carla dora emil zoë",
		"sortBy=userName":                      "anna@example.com ben Carla dora emil zoë",
		"sortBy=userName&sortOrder=descending": "zoë emil dora Carla ben anna@example.com",
		"sortBy=title&count=3":                 "anna@example.com",
		"sortBy=title&sortOrder=descending&filter=title+pr+and+userType+pr": "dora anna@example.com",
		"sortBy=meta.created&sortOrder=descending&count=2":                  "zoë emil",
		"sortBy=emails&filter=emails+pr":                                    "anna@example.com ben",
		"count=2":                                                           "anna@example.com ben",
		"count=2&startIndex=3":                                              "Carla dora",
		"count=2&startIndex=5":                                              "emil zoë",
		"count=2&startIndex=2&sortOrder=descending":                         "emil dora",
		"startIndex=7":                                                      "",
		"startIndex=999999999":                                              "",
		"startIndex=-5&count=1":                                             "anna@example.com",
		"startIndex=0&count=1":                                              "anna@example.com",
		"count=0":                                                           "",
		"count=-1":                                                          "",
		"filter=userName+ne+\"ben\"&count=2&startIndex=2":                   "Carla dora",
		"sortBy=active&count=1":                                             "ben",
	} {
		a := h.want(http.StatusOK, "GET", "/Users?"+query, nil)
		if got := a.names(); got != want && !(strings.HasPrefix(query, "sortBy=title&count=3") && strings.HasPrefix(got, want)) {
			t.Errorf("GET /Users?%s = %q, want %q", query, got, want)
		}
		if !strings.Contains(query, "filter") && a.at("totalResults") != "6" {
			t.Errorf("GET /Users?%s: totalResults %s, want 6", query, a.at("totalResults"))
		}
	}
	for _, query := range []string{
		"count=x", "startIndex=1e3", "sortOrder=up", "sortBy=nothing", "sortBy=password", "sortBy=name",
		"count=1&count=2", "sortBy=x509Certificates", "%zz",
	} {
		if a := h.do("GET", "/Users?"+query, nil); a.status != 400 {
			t.Errorf("GET /Users?%s: status %d, want 400", query, a.status)
		}
	}
}

// TestPagesAreWhole reads page after page, while the places of pages are remembered and forgotten.
func TestPagesAreWhole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 50 {
		h.add(fmt.Sprintf("p%03d", i), nil)
	}
	read := func() string {
		var all []string
		for start := 1; ; {
			a := h.want(http.StatusOK, "GET", "/Users?count=7&attributes=userName&startIndex="+strconv.Itoa(start), nil)
			names := strings.Fields(a.names())
			if len(names) == 0 {
				return strings.Join(all, " ")
			}
			all = append(all, names...)
			start += len(names)
		}
	}
	first := read()
	if n := len(strings.Fields(first)); n != 50 {
		t.Fatalf("%d persons on all pages, want 50", n)
	}
	if again := read(); again != first {
		t.Errorf("read again: %s, want %s", again, first)
	}
	h.add("a-first", nil)
	h.want(http.StatusOK, "GET", "/Users?count=7&startIndex=8", nil)
	if got := read(); got != "a-first "+first {
		t.Errorf("after another came: %s, want it first", got)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.want(http.StatusCreated, "POST", "/Users", fullUser).at("id")
	for query, want := range map[string]string{
		"attributes=nickName":                      "id nickName schemas userName",
		"attributes=name.familyName":               "id name schemas userName",
		"attributes=EMAILS.value":                  "emails id schemas userName",
		"attributes=" + enterprise + ":department": enterprise + " id schemas userName",
		"attributes=" + enterprise:                 enterprise + " id schemas userName",
		"attributes=nothing":                       "id schemas userName",
		"attributes=password":                      "id schemas userName",
		"excludedAttributes=userName,id,schemas,emails,name,meta,addresses,phoneNumbers,roles,entitlements,ims,photos,x509Certificates," +
			enterprise + "," + ours: "active displayName externalId id locale nickName preferredLanguage profileUrl schemas timezone title userName userType",
	} {
		a := h.want(http.StatusOK, "GET", "/Users/"+id+"?"+query, nil)
		var names []string
		for name := range a.body {
			names = append(names, name)
		}
		if got := sorted(names); got != sorted(strings.Fields(want)) {
			t.Errorf("GET ?%s has %s, want %s", query, got, want)
		}
	}
	a := h.want(http.StatusOK, "GET", "/Users/"+id+"?attributes=name.familyName,emails.value", nil)
	if a.at("name") != `{"familyName":"Jensen"}` || a.at("emails", 1) != `{"value":"babs@jensen.org"}` {
		t.Errorf("sub-attributes: %s", a.raw)
	}
	a = h.want(http.StatusOK, "GET", "/Users/"+id+"?excludedAttributes=name.familyName,emails", nil)
	if a.at("name", "familyName") != "" || a.at("name", "givenName") != "Barbara" || a.at("emails") != "" {
		t.Errorf("excluded: %s", a.raw)
	}
	h.refused(400, "invalidValue", "GET", "/Users/"+id+"?attributes=a&excludedAttributes=b", nil)
	h.refused(400, "invalidValue", "GET", "/Users/"+id+"?attributes="+strings.Repeat("a,", 200), nil)
	if a := h.want(http.StatusOK, "PATCH", "/Users/"+id+"?attributes=title", patch("add", "title", "Chief")); a.at("title") != "Chief" ||
		a.at("emails") != "" {
		t.Errorf("PATCH with attributes: %s", a.raw)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	crowd(h)
	const urn = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
	search := func(more map[string]any) map[string]any {
		more["schemas"] = []string{urn}
		return more
	}
	a := h.want(http.StatusOK, "POST", "/Users/.search", search(map[string]any{
		"filter": "title pr", "sortBy": "userName", "sortOrder": "descending", "startIndex": 2, "count": 1, "attributes": []string{"title"},
	}))
	if a.names() != "ben" || a.at("totalResults") != "3" || a.at("startIndex") != "2" || a.at("Resources", 0, "title") != "Guide" {
		t.Errorf("search: %s", a.raw)
	}
	for scimType, body := range map[string]map[string]any{
		"invalidSyntax": search(map[string]any{"unknown": true}),
		"invalidFilter": search(map[string]any{"filter": "x"}),
		"invalidValue":  search(map[string]any{"count": "1"}),
		"invalidPath":   search(map[string]any{"sortBy": "x"}),
	} {
		h.refused(400, scimType, "POST", "/Users/.search", body)
	}
	h.refused(400, "invalidValue", "POST", "/Users/.search", search(map[string]any{"filter": 7}))
	h.refused(400, "invalidValue", "POST", "/Users/.search", search(map[string]any{"attributes": "title"}))
	h.refused(400, "invalidSyntax", "POST", "/Users/.search", `{"filter":"title pr"}`)
}

// However many members groups have, a list of them stays in bounds.
func TestListOfLargeGroups(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.SetMaxMembers(5)
	anna, ben, carl := h.add("anna", nil), h.add("ben", nil), h.add("carl", nil)
	one, two := h.addGroup("one", anna, ben, carl), h.addGroup("two", anna, ben, carl)
	filter := url.QueryEscape
	for _, query := range []string{
		"", "?filter=" + filter("members pr"), "?sortBy=members",
		"?filter=" + filter(`members.value eq "`+anna+`"`) + "&count=1",
	} {
		h.refused(400, "tooMany", "GET", "/Groups"+query, nil)
	}
	for query, want := range map[string]string{
		"?count=1": "2", "?excludedAttributes=members": "2", "?filter=" + filter(`displayName eq "one"`): "1",
		"?filter=" + filter(`id eq "`+two+`" and members eq "`+ben+`"`): "1", "?filter=" + filter(`members.value eq "nobody"`): "0",
	} {
		if got := h.want(200, "GET", "/Groups"+query, nil).at("totalResults"); got != want {
			t.Errorf("GET /Groups%s: %s found, want %s", query, got, want)
		}
	}
	if got := h.memberNames(one); got != "anna ben carl" {
		t.Errorf("members of one group = %q, want all of them", got)
	}
}

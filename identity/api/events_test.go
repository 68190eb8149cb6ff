package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	ann = "0198aaaa-0000-7000-8000-00000000000a"
	bob = "0198aaaa-0000-7000-8000-00000000000b"
)

// TestEventsTable has a row for every row of the document about the events API.
func TestEventsTable(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	for range 3 {
		h.add(ann, "ops")
	}
	h.add(bob, "ops")
	h.add(bob, ann)
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	wrong := func(r *http.Request) { r.SetBasicAuth("ops", "guess") }
	other := func(r *http.Request) { r.SetBasicAuth("other", "secret of other") }
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name, method, query string
		change              func(*http.Request)
		status, code, total int
	}{
		{"of a person", "GET", "userId=" + ann + "&limit=10&offset=0", nil, 200, 0, 3},
		{"by an actor", "GET", "actor=ops&limit=10&offset=0", nil, 200, 0, 4},
		{"by a person as actor", "GET", "actor=" + ann + "&limit=10&offset=0", nil, 200, 0, 1},
		{"both must match", "GET", "userId=" + bob + "&actor=ops&limit=10&offset=0", nil, 200, 0, 1},
		{"person id in upper case", "GET", "userId=" + strings.ToUpper(ann) + "&limit=10&offset=0", nil, 200, 0, 3},
		{"actor in upper case", "GET", "actor=" + strings.ToUpper(ann) + "&limit=10&offset=0", nil, 200, 0, 1},
		{"an empty id is ignored when the other is set", "GET", "userId=&actor=ops&limit=10&offset=0", nil, 200, 0, 4},
		{"a parameter that is not known", "GET", "userId=" + ann + "&limit=10&offset=0&_=7", nil, 200, 0, 3},
		{"an unknown person", "GET", "userId=nobody&limit=10&offset=0", nil, 200, 0, 0},
		{"behind the last", "GET", "userId=" + ann + "&limit=10&offset=3", nil, 200, 0, 3},
		{"smallest limit", "GET", "userId=" + ann + "&limit=1&offset=0", nil, 200, 0, 3},
		{"largest limit", "GET", "userId=" + ann + "&limit=1000&offset=0", nil, 200, 0, 3},
		{"largest offset", "GET", "userId=" + ann + "&limit=1&offset=2147483647", nil, 200, 0, 3},

		{"both ids missing", "GET", "limit=10&offset=0", nil, 400, 4004, 0},
		{"both ids empty", "GET", "userId=&actor=&limit=10&offset=0", nil, 400, 4004, 0},
		{"ids are looked at first", "GET", "limit=0", nil, 400, 4004, 0},
		{"user id twice", "GET", "userId=a&userId=b&limit=10&offset=0", nil, 400, 0, 0},
		{"actor twice", "GET", "actor=a&actor=a&limit=10&offset=0", nil, 400, 0, 0},
		{"limit missing", "GET", "userId=a&offset=0", nil, 400, 4002, 0},
		{"limit empty", "GET", "userId=a&limit=&offset=0", nil, 400, 4002, 0},
		{"limit twice", "GET", "userId=a&limit=1&limit=1&offset=0", nil, 400, 4002, 0},
		{"limit is looked at before offset", "GET", "userId=a", nil, 400, 4002, 0},
		{"offset missing", "GET", "userId=a&limit=10", nil, 400, 4003, 0},
		{"offset twice", "GET", "userId=a&limit=10&offset=0&offset=0", nil, 400, 4003, 0},
		{"offset over int32", "GET", "userId=a&limit=10&offset=2147483648", nil, 400, 4003, 0},
		{"broken escape", "GET", "userId=%zz&limit=10&offset=0", nil, 400, 0, 0},
		{"semicolon", "GET", "userId=a;limit=10&offset=0", nil, 400, 0, 0},
		{"endless query", "GET", "userId=" + long + long, nil, 400, 0, 0},

		{"no credentials", "GET", "userId=a&limit=10&offset=0", nobody, 401, 0, 0},
		{"credentials are checked first", "POST", "limit=x", nobody, 401, 0, 0},
		{"wrong credentials", "GET", "userId=a&limit=10&offset=0", wrong, 401, 0, 0},
		{"an API client without this API", "GET", "userId=a&limit=10&offset=0", other, 403, 0, 0},
		{"another method", "POST", "userId=a&limit=10&offset=0", nil, 405, 0, 0},
		{"an unknown method", "PURGE", "", nil, 405, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*http.Request) {}
			}
			w := h.do(tt.method, "/api/events?"+tt.query, tt.change)
			body := answer(t, w)
			code, _ := body["error_code"].(float64)
			if w.Code != tt.status || int(code) != tt.code {
				t.Fatalf("%s %s = %d %s, want %d with code %d", tt.method, tt.query, w.Code, w.Body, tt.status, tt.code)
			}
			for name, want := range map[string]string{
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "application/json;charset=UTF-8",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			switch {
			case tt.status == http.StatusUnauthorized && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic "):
				t.Errorf("WWW-Authenticate = %q, want Basic", w.Header().Get("WWW-Authenticate"))
			case tt.status == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD":
				t.Errorf("Allow = %q, want GET, HEAD", w.Header().Get("Allow"))
			case tt.status == http.StatusOK:
				if got := body["pagination"].(map[string]any)["totalResults"]; got != float64(tt.total) {
					t.Errorf("totalResults = %v, want %d", got, tt.total)
				}
			}
		})
	}
}

// TestEventInfo holds the names and forms of the members against the document.
func TestEventInfo(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	h.names[bob] = "bob@example.com"
	first := h.add(ann, "ops", func(e *audit.Event) { e.Reason, e.AgentUser = "asked for it", "Operations" })
	second := h.add(ann, bob)
	third := h.add("", "ops", func(e *audit.Event) { e.Partition = "west" })
	check := func(query, want string) {
		t.Helper()
		w := h.do("GET", "/api/events?limit=7&offset=0&"+query)
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want {
			t.Errorf("events of %s = %d\n%s, want\n%s", query, w.Code, got, want)
		}
	}
	info := func(e audit.Event, person, partition, agent, more string) string {
		return fmt.Sprintf(`{"event_identifier":%q,%s"occurred":%d,"event_type":"person.PersonCreatedEvent","event_name":"Person Created","client_ip":"192.0.2.9",`+
			`"user_agent":"curl/8","partition_id":%q,"event_agent_user":%q%s}`, e.ID, person, e.Occurred.UnixMilli(), partition, agent, more)
	}
	ofAnn := `"person_id":"` + ann + `",`
	check("userId="+ann, `{"resultSet":[`+info(second, ofAnn, "default", "bob@example.com", "")+","+
		info(first, ofAnn, "default", "Operations", `,"reason":"asked for it"`)+
		`],"pagination":{"offset":0,"pageSize":7,"totalResults":2}}`)
	check("actor=ops", `{"resultSet":[`+info(third, "", "west", "ops", "")+","+
		info(first, ofAnn, "default", "Operations", `,"reason":"asked for it"`)+
		`],"pagination":{"offset":0,"pageSize":7,"totalResults":2}}`)
	check("userId="+bob, `{"resultSet":[],"pagination":{"offset":0,"pageSize":7,"totalResults":0}}`)
	if head := h.do("HEAD", "/api/events?limit=7&offset=0&actor=ops"); head.Code != 200 {
		t.Errorf("HEAD = %d, want 200", head.Code)
	}
}

func TestEventsPages(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	var want []string
	for range 23 {
		want = append(want, h.add(ann, "ops").ID)
	}
	slices.Reverse(want)
	var got []string
	for offset := 0; offset < 30; offset += 5 {
		var page struct {
			ResultSet []struct {
				ID string `json:"event_identifier"`
			}
			Pagination struct{ Offset, PageSize, TotalResults int }
		}
		w := h.do("GET", fmt.Sprintf("/api/events?userId=%s&limit=5&offset=%d", ann, offset))
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		if p := page.Pagination; p.Offset != offset || p.PageSize != 5 || p.TotalResults != 23 {
			t.Errorf("pagination at %d = %+v", offset, p)
		}
		for _, e := range page.ResultSet {
			got = append(got, e.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages give %v, want each event once, newest first: %v", got, want)
	}
}

func TestEventsSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	h.add(ann, "ops")
	h.units.Features.EventsAPIEnabled = false
	const query = "/api/events?userId=" + ann + "&limit=1&offset=0"
	for _, target := range []string{query, "/api/events", "/api/events?limit=0"} {
		if w := h.do("GET", target); w.Code != 503 || answer(t, w)["error_code"] != 1001.0 || w.Header().Get("Retry-After") == "" {
			t.Errorf("GET %s while switched off = %d %s, want 503 with 1001", target, w.Code, w.Body)
		}
	}
	if w := h.do("GET", query, func(r *http.Request) { r.Header.Del("Authorization") }); w.Code != 401 {
		t.Errorf("without credentials while switched off = %d, want 401 first", w.Code)
	}
	h.units.Features.EventsAPIEnabled = true
	if w := h.do("GET", query); w.Code != 200 {
		t.Errorf("switched on again = %d, want 200 at once", w.Code)
	}
}

func TestEventsWithoutStorage(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	h.add(ann, "ops")
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	w := h.do("GET", "/api/events?userId="+ann+"&limit=1&offset=0")
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("with the store closed = %d %s, want 503", w.Code, w.Body)
	}
}

func TestEventsAttacks(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *eventsHarness {
		h := newEvents(t)
		h.add(ann, "ops", func(e *audit.Event) { e.Partition = "east" })
		h.add(bob, "ops\x00\x01x", func(e *audit.Event) { e.Partition = "west" })
		return h
	}
	count := func(t *testing.T, w *httptest.ResponseRecorder) (n int, body map[string]any) {
		t.Helper()
		body = answer(t, w)
		list, _ := body["resultSet"].([]any)
		return len(list), body
	}
	t.Run("attack 262: limits and offsets that are no numbers, too small or too large, and no ids", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		for query, code := range map[string]float64{
			"userId=a&offset=0&limit=0": 4002, "userId=a&offset=0&limit=1001": 4002, "userId=a&offset=0&limit=-1": 4002,
			"userId=a&offset=0&limit=abc": 4002,
			"userId=a&offset=0&limit=1e3": 4002, "userId=a&offset=0&limit=%2B5": 4002, "userId=a&offset=0&limit=0x10": 4002,
			"userId=a&offset=0&limit=5%20": 4002,
			"userId=a&offset=0&limit=٣":    4002, "userId=a&offset=0&limit=1_0": 4002, "userId=a&offset=0&limit=99999999999999999999999": 4002,
			"userId=a&offset=0&limit=1%00": 4002,
			"userId=a&limit=1&offset=-1":   4003, "userId=a&limit=1&offset=9223372036854775808": 4003, "userId=a&limit=1&offset=1.5": 4003,
			"userId=a&limit=1&offset=": 4003,
			"limit=1&offset=0":         4004, "USERID=a&limit=1&offset=0": 4004, "user_id=a&limit=1&offset=0": 4004, "": 4004,
		} {
			w := h.do("GET", "/api/events?"+query)
			if got := answer(t, w)["error_code"]; w.Code != 400 || got != code {
				t.Errorf("%q = %d %s, want 400 with %v", query, w.Code, w.Body, code)
			}
		}
	})
	t.Run("attack 262: ids with quotes, separators and wildcards find no events of other people", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		for _, id := range []string{
			"' OR '1'='1", "%", "*", ann + "\x00", ann + "\x00\x01", ann[:35], "op", "ops\x00\x01x\x00\x01", "ops\x00",
			"../" + ann, strings.Repeat("a", 7000), "\xff\xfe", ann + "," + bob,
		} {
			for _, name := range []string{"userId", "actor"} {
				w := h.do("GET", "/api/events?limit=10&offset=0&"+name+"="+url.QueryEscape(id))
				if n, body := count(t, w); w.Code != 400 && (w.Code != 200 || n != 0 || body["pagination"].(map[string]any)["totalResults"] != 0.0) {
					t.Errorf("%s %q = %d %s, want nothing", name, id, w.Code, w.Body)
				}
			}
		}
		if n, _ := count(t, h.do("GET", "/api/events?limit=10&offset=0&actor="+url.QueryEscape("ops\x00\x01x"))); n != 1 {
			t.Errorf("an actor with separators in its name has %d events, want its own", n)
		}
	})
	t.Run("attack 262: a person of another partition, asked with the header of one", func(t *testing.T) {
		t.Parallel()
		h := setup(t)
		w := h.do("GET", "/api/events?limit=10&offset=0&userId="+ann+"&actor="+url.QueryEscape("ops\x00\x01x"), func(r *http.Request) {
			r.Header.Set("X-Service-Persons-Partition-Id", "west")
		})
		if n, _ := count(t, w); w.Code != 200 || n != 0 {
			t.Errorf("events of another partition = %d %s, want none", w.Code, w.Body)
		}
	})
	t.Run("attack 263: line ends, a megabyte and escapes in the user agent", func(t *testing.T) {
		t.Parallel()
		h := newEvents(t)
		for i, agent := range []string{
			"a\r\nclient_ip: 1.2.3.4", strings.Repeat("x", 1<<20), "\x1b[31m\x00", "\xff\xfe",
			`"},{"event_type":"forged`,
		} {
			e, err := h.rec.New(audit.Type{Type: "login.LoginFailedEvent", Name: "Login Failed"},
				audit.Origin{ClientIP: "192.0.2.9", UserAgent: agent})
			if err != nil {
				t.Fatal(err)
			}
			e.PersonID = fmt.Sprint("p", i)
			if err := h.store.Update(t.Context(), func(tx storage.Tx) error { return h.rec.Append(tx, e) }); err != nil {
				t.Fatal(err)
			}
			w := h.do("GET", "/api/events?limit=10&offset=0&userId=p"+fmt.Sprint(i))
			n, body := count(t, w)
			if n != 1 || w.Body.Len() > 4096 || strings.ContainsAny(strings.TrimSpace(w.Body.String()), "\r\n\x1b\x00") {
				t.Fatalf("events with such a user agent: %d of %d bytes, want one short line", n, w.Body.Len())
			}
			if got := body["resultSet"].([]any)[0].(map[string]any)["client_ip"]; got != "192.0.2.9" {
				t.Errorf("client_ip = %v, want the real one", got)
			}
		}
	})
}

func FuzzEventsQuery(f *testing.F) {
	f.Add("userId=a&limit=1&offset=0")
	f.Add("actor=%00%01&limit=1000&offset=2147483647")
	h := newEvents(f)
	h.add(ann, "ops")
	f.Fuzz(func(t *testing.T, query string) {
		w := h.do("GET", "/api/events?"+query)
		if w.Code != 200 && w.Code != 400 {
			t.Errorf("%q = %d %s", query, w.Code, w.Body)
		}
		answer(t, w)
	})
}

// TestEventsOfATime: "who signed in today?" is asked with since and until.
func TestEventsOfATime(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	start := h.time
	for range 10 { // one each second
		h.add(ann, "ops")
	}
	h.add(ann, "ops", func(e *audit.Event) { e.Partition = "west" })
	at := func(seconds int) string { return start.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339) }
	milli := func(seconds int) string {
		return strconv.FormatInt(start.Add(time.Duration(seconds)*time.Second).UnixMilli(), 10)
	}
	for _, tt := range []struct {
		name, query string
		status      int
		total, page int
	}{
		{"since", "&since=" + at(7), 200, 4, 4},
		{"until", "&until=" + at(3), 200, 3, 3},
		{"both", "&since=" + at(2) + "&until=" + at(5), 200, 3, 3},
		{"milliseconds", "&since=" + milli(2) + "&until=" + milli(5), 200, 3, 3},
		{"another zone", "&since=" + url.QueryEscape(start.Add(2*time.Second).In(time.FixedZone("", 3600)).Format(time.RFC3339)) +
			"&until=" + at(5), 200, 3, 3},
		{"an actor's", "&actor=ops&since=" + at(2) + "&until=" + at(5), 200, 3, 3},
		{"before all", "&until=" + at(0), 200, 0, 0},
		{"after all", "&since=" + at(100), 200, 0, 0},
		{"empty", "&since=&until=", 200, 11, 11},
		{"the other way round", "&since=" + at(5) + "&until=" + at(2), 400, 0, 0},
		{"no time", "&since=yesterday", 400, 0, 0},
		{"a day", "&until=2026-03-04", 400, 0, 0},
		{"before 1970", "&since=1960-01-01T00:00:00Z", 400, 0, 0},
		{"negative", "&since=-5", 400, 0, 0},
		{"too large", "&since=99999999999999999999", 400, 0, 0},
		{"twice", "&since=" + at(1) + "&since=" + at(2), 400, 0, 0},
	} {
		w := h.do("GET", "/api/events?limit=100&offset=0&userId="+ann+tt.query)
		body := answer(t, w)
		if w.Code != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, w.Code, tt.status, w.Body)
			continue
		}
		if tt.status != 200 {
			continue
		}
		list, _ := body["resultSet"].([]any)
		if total := body["pagination"].(map[string]any)["totalResults"]; total != float64(tt.total) || len(list) != tt.page {
			t.Errorf("%s: %v events and %d on the page, want %d and %d", tt.name, total, len(list), tt.total, tt.page)
		}
	}
	w := h.do("GET", "/api/events?limit=2&offset=1&userId="+ann+"&since="+at(2)+"&until="+at(6))
	list, _ := answer(t, w)["resultSet"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["occurred"] != float64(start.Add(4*time.Second).UnixMilli()) ||
		list[1].(map[string]any)["occurred"] != float64(start.Add(3*time.Second).UnixMilli()) {
		t.Errorf("a page of a time: %s", w.Body)
	}
}

// TestEventsOfAPartition: an API client with partitions asks for a person of another one.
func TestEventsOfAPartition(t *testing.T) {
	t.Parallel()
	h := newEvents(t)
	h.add(ann, "ops", func(e *audit.Event) { e.Partition = "west" })
	h.add(bob, "ops")
	h.gate.Partitioned = true
	var only []string
	h.gate.Partitions = func(string) []string { return only }
	in := func(partition string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Service-Persons-Partition-Id", partition) }
	}
	ask := func(query string, change ...func(*http.Request)) string {
		w := h.do("GET", "/api/events?limit=10&offset=0&"+query, change...)
		if w.Code != 200 {
			return strconv.Itoa(w.Code)
		}
		return fmt.Sprint(answer(t, w)["pagination"].(map[string]any)["totalResults"])
	}
	for _, tt := range []struct {
		name, got, want string
	}{
		{"all", ask("actor=ops"), "2"},
		{"one", ask("actor=ops", in("west")), "1"},
		{"the default one", ask("actor=ops", in("default")), "1"},
		{"one that there is not", ask("actor=ops", in("east")), "0"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	only = []string{"west"}
	for _, tt := range []struct {
		name, got, want string
	}{
		{"peer 42: by an actor of all partitions", ask("actor=ops"), "1"},
		{"peer 42: a person of another partition", ask("userId=" + bob), "0"},
		{"peer 42: another partition by its name", ask("userId="+bob, in("default")), "403"},
		{"its own", ask("userId="+ann, in("west")), "1"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

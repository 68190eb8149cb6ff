package limit

import (
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"100/min": "100/min", "20/s": "20/s", "5/60s": "5/min", "10000/30d": "10000/30d", "1M/month": "1000000/month", "2K/3month": "2000/3month",
		"7/24h": "7/d", "1/90min": "1/90min",
	} {
		if got, err := ParseRate(text); err != nil || got.String() != want {
			t.Errorf("ParseRate(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "100", "100/", "/min", "0/s", "-1/s", "1.5/s", "100/week", "100/0s", "1G/s", "100 / s", "9999999999999/s", "1/4000d", "1/200month",
		"1e3/s", "M/s", "5KK/s", "+5/s", "1/99999999999999999999s",
	} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, got)
		}
	}
}

func TestBucketBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rate  string
		burst int64
		ok    bool
	}{
		"its own number at once":    {"100/min", 0, true},
		"a burst":                   {"100/min", 20, true},
		"months":                    {"100/month", 0, false},
		"more than a million":       {"2M/s", 0, false},
		"a burst that takes an age": {"1/d", 5000, false},
	} {
		r, err := ParseRate(tt.rate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewBucket(r, tt.burst); (err == nil) != tt.ok {
			t.Errorf("%s: NewBucket(%s, %d) = %v", name, tt.rate, tt.burst, err)
		}
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	at := time.Date(2036, 2, 29, 13, 14, 15, 16, time.FixedZone("elsewhere", 3*3600))
	for text, want := range map[string][2]string{
		"1/min":     {"2036-02-29T10:14:00Z", "2036-02-29T10:15:00Z"},
		"1/h":       {"2036-02-29T10:00:00Z", "2036-02-29T11:00:00Z"},
		"1/d":       {"2036-02-29T00:00:00Z", "2036-03-01T00:00:00Z"},
		"1/month":   {"2036-02-01T00:00:00Z", "2036-03-01T00:00:00Z"},
		"1/3month":  {"2036-01-01T00:00:00Z", "2036-04-01T00:00:00Z"},
		"1/12month": {"2036-01-01T00:00:00Z", "2037-01-01T00:00:00Z"},
		"1/30d":     {"2036-02-14T00:00:00Z", "2036-03-15T00:00:00Z"},
	} {
		r, err := ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		start, end := r.Per.around(at)
		if s, e := start.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano); s != want[0] || e != want[1] {
			t.Errorf("%s: the period is from %s to %s, want %v", text, s, e, want)
		}
	}
}

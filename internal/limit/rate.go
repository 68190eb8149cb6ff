// Package limit counts the requests of callers. A Bucket bounds how fast a caller can go on, by the generic cell rate
// algorithm, and a Quota how often in a period. A table keeps the buckets of a bounded number of callers in memory, and
// Quotas the periods, which storage keeps over restarts. Neither waits for storage while it counts.
package limit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of requests in a period, such as 100/min.
type Rate struct {
	Count int64
	Per   Period
}

// Period is a duration, or a number of calendar months in UTC.
type Period struct {
	Length time.Duration // 0: Months count
	Months int
}

const (
	day = 24 * time.Hour

	// maxCount bounds what can be counted, so no sum overflows.
	maxCount  = 1_000_000_000_000
	maxLength = 3660 * day
	// finest is the least time between two requests of a bucket that is full of them.
	finest = time.Microsecond
)

var units = map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour, "d": day}

// ParseRate reads a number and a period: 100/min, 10000/30d, 1M/month. K and M are thousands and millions.
func ParseRate(text string) (Rate, error) {
	number, period, ok := strings.Cut(text, "/")
	if !ok {
		return Rate{}, fmt.Errorf("%q: want a number and a period, such as 100/min", text)
	}
	count, err := parseCount(number)
	if err != nil {
		return Rate{}, fmt.Errorf("%q: %w", text, err)
	}
	per, err := parsePeriod(period)
	if err != nil {
		return Rate{}, fmt.Errorf("%q: %w", text, err)
	}
	return Rate{count, per}, nil
}

func parseCount(text string) (int64, error) {
	factor := int64(1)
	switch digits, suffix := strings.TrimRight(text, "kKM"), strings.TrimLeft(text, "0123456789"); suffix {
	case "":
	case "k", "K":
		text, factor = digits, 1000
	case "M":
		text, factor = digits, 1_000_000
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n < 1 || int64(n) > maxCount/factor { //nolint:gosec // of 63 bits
		return 0, errors.New("the number must be a whole one from 1 to 1000000M, such as 100, 20K or 1M")
	}
	return int64(n) * factor, nil //nolint:gosec // of 63 bits
}

func parsePeriod(text string) (Period, error) {
	unit := strings.TrimLeft(text, "0123456789")
	n := 1
	if digits := text[:len(text)-len(unit)]; digits != "" {
		var err error
		if n, err = strconv.Atoi(digits); err != nil || n < 1 || n > int(maxLength/time.Second) {
			return Period{}, errors.New("the number of the period is too large or 0")
		}
	}
	if unit == "month" {
		if n > 120 {
			return Period{}, errors.New("a period is at most 120 months")
		}
		return Period{Months: n}, nil
	}
	length, ok := units[unit]
	if !ok {
		return Period{}, fmt.Errorf("the unit %q is unknown: s, min, h, d or month", unit)
	}
	if time.Duration(n) > maxLength/length {
		return Period{}, errors.New("a period is at most 3660 days")
	}
	return Period{Length: time.Duration(n) * length}, nil
}

// String returns the rate as ParseRate reads it.
func (r Rate) String() string { return strconv.FormatInt(r.Count, 10) + "/" + r.Per.String() }

// String returns the period in its largest unit.
func (p Period) String() string {
	n, unit := int64(p.Months), "month"
	if p.Months == 0 {
		for _, u := range []string{"d", "h", "min", "s"} {
			if p.Length%units[u] == 0 {
				n, unit = int64(p.Length/units[u]), u
				break
			}
		}
	}
	if n == 1 {
		return unit
	}
	return strconv.FormatInt(n, 10) + unit
}

// around returns the period that a time is in. Days begin at midnight UTC, months on the first, and periods of several
// are counted from 1970.
func (p Period) around(t time.Time) (start, end time.Time) {
	t = t.UTC()
	if p.Months > 0 {
		months := (t.Year()-1970)*12 + int(t.Month()) - 1
		first := time.Month(months - months%p.Months + 1)
		return time.Date(1970, first, 1, 0, 0, 0, 0, time.UTC), time.Date(1970, first+time.Month(p.Months), 1, 0, 0, 0, 0, time.UTC)
	}
	since := t.Sub(time.Unix(0, 0))
	start = t.Add(-(since % p.Length)).Truncate(time.Second)
	return start, start.Add(p.Length)
}

// Bucket is a rate with the number of requests that can come at once.
type Bucket struct {
	Rate  Rate
	Burst int64
	About string // of the limit, for operators

	every int64 // nanoseconds after which there is room for one more
	span  int64 // that an empty bucket takes to be full
}

// NewBucket returns the bucket of a rate. burst 0: as many as the rate has in its period.
func NewBucket(r Rate, burst int64) (*Bucket, error) {
	if r.Per.Months > 0 {
		return nil, errors.New("a limit is for s, min, h or d: months are for a quota")
	}
	if burst == 0 {
		burst = r.Count
	}
	every := (int64(r.Per.Length) + r.Count - 1) / r.Count // rounded up: never more than the rate
	if every < int64(finest) {
		return nil, fmt.Errorf("%s is more than a million in a second", r)
	}
	if burst < 1 || burst > int64(maxLength)/every {
		return nil, errors.New("the burst is too large for the rate")
	}
	return &Bucket{Rate: r, Burst: burst, every: every, span: every * burst}, nil
}

// part returns the bucket of one of several nodes while it has no lease: its part of the rate and of the burst.
func (b *Bucket) part(nodes int64) (out Bucket) {
	burst := (b.Burst + nodes - 1) / nodes
	out.every = b.every * nodes
	out.span, out.Burst = out.every*burst, burst
	return out
}

// State says how often a caller can still come.
type State struct {
	OK        bool          // the request is counted
	Remaining int64         // how many can follow at once
	Reset     time.Duration // until all of the limit is there again
	Retry     time.Duration // until there is room for one; 0: there is
}

// take counts a request. full is when the bucket would be full, in nanoseconds since 1970, as everywhere here.
func (b *Bucket) take(full, now int64) (int64, State) {
	full = b.clamp(full, now)
	if next := full + b.every; next-now <= b.span {
		return next, b.state(next, now, true)
	}
	return full, b.state(full, now, false)
}

// clamp bounds a stored time, so no one waits longer for a clock that went back.
func (b *Bucket) clamp(full, now int64) int64 { return min(max(full, now), now+b.span) }

func (b *Bucket) state(full, now int64, ok bool) State {
	s := State{OK: ok, Remaining: (b.span - (full - now)) / b.every, Reset: time.Duration(full - now)}
	if s.Remaining == 0 {
		s.Retry = time.Duration(full + b.every - now - b.span)
	}
	return s
}

// limited reports whether the next request would be refused.
func (b *Bucket) limited(full, now int64) bool { return b.clamp(full, now)+b.every-now > b.span }

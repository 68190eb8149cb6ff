package policy

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // machines without a zone database know the names too

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// window is a part of each week, by the clocks on the wall of a time zone. What the change of clocks skips never
// happens; what it repeats belongs to the window both times.
type window struct {
	days     [7]bool // by time.Weekday, on which it begins
	from, to int     // minutes of the day; to is not in it. to <= from: it ends on the next day
	zone     *time.Location
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const (
	dayMinutes = 24 * 60
	windowForm = "want days, hours and a time zone, such as mon-fri 07:00-19:00 Europe/Amsterdam"
)

// parseWindow reads "[days] from-to zone".
func parseWindow(text string) (w window, err error) {
	words := strings.Fields(text)
	if len(words) == 2 && !strings.Contains(words[1], ":") { // every day
		words = append([]string{"sun-sat"}, words...)
	}
	if len(words) != 3 {
		return w, coded.Errorf("window", "value", "%q: %s", text, windowForm)
	}
	if w.days, err = parseDays(words[0]); err != nil {
		return w, err
	}
	from, to, ok := strings.Cut(words[1], "-")
	if w.from, err = parseMinute(from); err == nil && ok {
		w.to, err = parseMinute(to)
	}
	switch {
	case err != nil || !ok:
		return w, coded.Errorf("hours", "value", "%q is not a time range: write for example 07:00-19:00", words[1])
	case w.from == dayMinutes || w.to == 0:
		return w, coded.Errorf("day_ends", "value", "%q: a day begins at 00:00 and ends at 24:00", words[1])
	case w.from == w.to:
		return w, coded.Errorf("hours_empty", "value", "%q is an empty time range: write 00:00-24:00 for the whole day", words[1])
	}
	// Local is the zone of the machine, which changes where no one reads the configuration.
	if w.zone, err = time.LoadLocation(words[2]); err != nil || words[2] == "Local" {
		return w, coded.Errorf("zone", "value", "%q is not a time zone: name one of the IANA database, such as Europe/Amsterdam or UTC", words[2])
	}
	return w, nil
}

// parseDays reads days and ranges of days, such as mon-fri or sat,sun. A range can pass the end of the week.
func parseDays(text string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, to := weekday(first), weekday(last)
		if from < 0 || to < 0 {
			return days, coded.Errorf("days", "value", "%q is not a range of days: write for example mon-fri or sat,sun", text)
		}
		for d := from; ; d = (d + 1) % 7 {
			days[d] = true
			if d == to {
				break
			}
		}
	}
	return days, nil
}

func weekday(text string) int {
	for i, name := range weekdays {
		if strings.EqualFold(name, text) {
			return i
		}
	}
	return -1
}

var errMinute = errors.New("not a time of day")

// parseMinute reads hh:mm, 00:00 to 24:00, as minutes.
func parseMinute(text string) (int, error) {
	if text == "24:00" {
		return dayMinutes, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, errMinute
	}
	return t.Hour()*60 + t.Minute(), nil
}

// contains reports whether a time lies in the window.
func (w window) contains(t time.Time) bool {
	t = t.In(w.zone)
	day, minute := t.Weekday(), t.Hour()*60+t.Minute()
	if w.from < w.to {
		return w.days[day] && w.from <= minute && minute < w.to
	}
	return w.days[day] && minute >= w.from || w.days[(day+6)%7] && minute < w.to
}

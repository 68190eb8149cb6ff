package maintenance

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// weekdays are the days of a week in the order of a form, by their numbers.
var weekdays = []time.Weekday{time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday, time.Saturday, time.Sunday}

// dayKey is the message of a day.
func dayKey(d time.Weekday) string { return "console.weekday." + strconv.Itoa(int(d)) }

// hourText is an hour in UTC.
func hourText(h int) string { return fmt.Sprintf("%02d:00 UTC", h) }

// schedulePart says when backups are made by themselves.
func schedulePart(p *backup.Planned) web.ConsolePart {
	part := web.ConsolePart{ID: "schedule", Title: web.Say("console.storage.schedule"), Text: web.Say("console.storage.schedule.text")}
	fact := func(label string, cells ...web.Cell) {
		part.Facts = append(part.Facts, web.ConsoleFact{Label: label, Cells: cells})
	}
	every := []web.Cell{{Text: web.Say("console.schedule." + everyKey(p.Every))}}
	if p.Every == backup.Weekly {
		every = append(every, web.Cell{Text: web.Say(dayKey(p.Weekday))})
	}
	if p.Every == backup.Off {
		fact("console.field.every", every...)
		return part
	}
	fact("console.field.every", append(every, web.Cell{Name: hourText(p.Hour)})...)
	fact("console.field.keep", web.Cell{Name: strconv.Itoa(p.Keep)})
	fact("console.schedule.next", when(p.Next))
	last := when(p.Last)
	if p.Problem != "" {
		last = web.Cell{Text: web.Say("console.backup.failed"), Kind: "bad", Hint: web.Said(p.Problem)}
	}
	fact("console.schedule.last", last)
	return part
}

func everyKey(e backup.Every) string {
	if e == backup.Off {
		return "off"
	}
	return string(e)
}

// trialPart says whether a backup could be restored.
func trialPart(t *backup.Trial) web.ConsolePart {
	part := web.ConsolePart{ID: "trial", Title: web.Say("console.storage.trial"), Text: web.Say("console.storage.trial.text")}
	if t.State == "" {
		part.Text = web.Say("console.storage.trial.none")
		return part
	}
	b := backup.Backup{Problem: t.Problem, State: t.State, Records: t.Records}
	part.Facts = []web.ConsoleFact{
		{Label: "console.column.file", Cells: []web.Cell{{Name: t.File, Note: t.Host}}},
		{Label: "console.column.time", Cells: []web.Cell{when(t.Began)}},
		{Label: "console.column.by", Cells: []web.Cell{layout.OrNone(t.By)}},
		{Label: "console.column.state", Cells: []web.Cell{stateCell(&b, "console.trial.records")}},
	}
	return part
}

func (u *upkeep) askSchedule(v *layout.Visit) (q layout.Question, err error) {
	var p backup.Planned
	err = u.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		p, err = u.Backups.Plan(tx)
		return err
	})
	if err != nil {
		return q, err
	}
	if p.Every == backup.Off {
		p.Hour, p.Keep, p.Weekday = 2, 7, time.Sunday
	}
	every := web.Field{Name: "every", Type: "select", Value: string(p.Every)}
	for _, e := range []backup.Every{backup.Off, backup.Daily, backup.Weekly} {
		every.Options = append(every.Options, web.Option{Value: string(e), Label: "console.schedule." + everyKey(e)})
	}
	day := web.Field{Name: "weekday", Type: "select", Value: strconv.Itoa(int(p.Weekday)), Hint: "console.schedule.weekday.hint"}
	for _, d := range weekdays {
		day.Options = append(day.Options, web.Option{Value: strconv.Itoa(int(d)), Label: dayKey(d)})
	}
	q.Submit = "console.save"
	q.Fields = []web.Field{
		every, day,
		{Name: "hour", InputMode: "numeric", MaxLength: 2, Required: true, Value: strconv.Itoa(p.Hour), Hint: "console.schedule.hour.hint"},
		{
			Name: "keep", Label: "console.schedule.keep", InputMode: "numeric", MaxLength: 2, Required: true, Value: strconv.Itoa(p.Keep),
			Hint: "console.schedule.keep.hint", HintFill: []any{"n", backup.MostKept},
		},
	}
	return q, nil
}

func (u *upkeep) setSchedule(v *layout.Visit, in url.Values) (layout.Result, error) {
	number := func(name string, low, high int) (int, error) {
		n, err := strconv.Atoi(in.Get(name))
		if err != nil || n < low || n > high {
			return 0, &layout.Problem{Field: name, Key: "console.problem.number", Fill: []any{"from", low, "to", high}}
		}
		return n, nil
	}
	p := backup.Schedule{Every: backup.Every(in.Get("every"))}
	day, err := number("weekday", 0, 6)
	p.Weekday = time.Weekday(day)
	if err == nil {
		p.Hour, err = number("hour", 0, 23)
	}
	if err == nil {
		p.Keep, err = number("keep", 1, backup.MostKept)
	}
	if err != nil {
		return layout.Result{}, err
	}
	if err = u.Backups.SetPlan(v.Context(), p, v.Actor()); errors.Is(err, backup.ErrSchedule) {
		err = &layout.Problem{Field: "every", Key: "console.problem.value"}
	}
	return layout.Result{}, u.refusal(err)
}

func (u *upkeep) tryRestore(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, u.refusal(u.Backups.Try(v.Context(), v.Actor()))
}

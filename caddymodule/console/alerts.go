package console

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/alert"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	alertsPath = "/events/alerts"
	saveAlert  = "save-alert"
)

// alertsScreen lists the alerts: filters of events whose new events are sent to somebody.
func (c *Console) alertsScreen() *frame.Screen {
	return &frame.Screen{
		Name: "alerts", Path: alertsPath, Role: frame.Viewer, Show: c.showAlerts,
		Acts: []*frame.Act{{Name: saveAlert, Role: frame.Operator, Hidden: true, Ask: c.askAlert, Do: c.addAlert}},
	}
}

// alertScreen is one of them. It belongs to the person who has saved it last.
func (c *Console) alertScreen() *frame.Screen {
	is := func(paused bool) func(v *frame.Visit) bool {
		return func(v *frame.Visit) bool { return shownAlert(v).Paused == paused }
	}
	return &frame.Screen{
		Name: "alert", Path: alertsPath + "/{id}", Role: frame.Viewer, Find: c.findAlert, Rank: c.rankOfAlert, Show: c.showAlert,
		Acts: []*frame.Act{
			{Name: "edit-alert", Role: frame.Operator, Own: true, Ask: c.askAlert, Do: c.editAlert},
			{Name: "test-alert", Role: frame.Operator, Own: true, Do: c.testAlert},
			{Name: "pause-alert", Role: frame.Operator, Own: true, When: is(false), Do: c.pauseAlert(true)},
			{Name: "resume-alert", Role: frame.Operator, Own: true, When: is(true), Do: c.pauseAlert(false)},
			{Name: "remove-alert", Role: frame.Operator, Own: true, Danger: true, Do: c.removeAlert},
		},
	}
}

// shownAlert is the alert that the screen is about.
func shownAlert(v *frame.Visit) *alert.Alert { return v.About.(*alert.Alert) }

func alertPath(id string) string { return frame.Root + alertsPath + "/" + url.PathEscape(id) }

// MayAlert tells whether a person may have alerts, as alert.Deps asks.
func (c *Console) MayAlert(tx storage.Tx, _ string, p *person.Record) (bool, error) {
	u, err := c.Units(tx)
	return err == nil && u.Features.AdminConsoleEnabled && c.frame.RoleOf(p.PartitionName(), p.Groups) >= frame.Operator, err
}

// EventsOf is the page with the events that an alert selects.
func EventsOf(f alert.Filter) string {
	return frame.With(frame.Root+"/events", "person", f.Person, "kind", strings.Join(f.Types, ", "), "client", f.Client, "address", f.Address)
}

// by is the actor of an act on an alert. That of one's own is looked at again, too.
func by(v *frame.Visit) event.Actor {
	a := v.Actor()
	if a.Check == nil {
		a.Check = v.Recheck
	}
	return a
}

func (c *Console) findAlert(v *frame.Visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		a, err := c.Alerts.Get(tx, v.PathValue("id"))
		if errors.Is(err, alert.ErrGone) {
			return front.NotFound()
		}
		if err != nil {
			return err
		}
		v.About, v.Called, v.Self = &a, a.Name, a.Owner == v.Me()
		v.Rank, err = c.rankOfOwner(tx, a.Owner)
		return err
	})
}

// rankOfAlert is the role of its owner.
func (c *Console) rankOfAlert(v *frame.Visit, tx storage.Tx) (frame.Role, error) {
	a, err := c.Alerts.Get(tx, v.PathValue("id"))
	if errors.Is(err, alert.ErrGone) { // it has just been removed
		return frame.Nobody, nil
	}
	if err != nil {
		return frame.Nobody, err
	}
	return c.rankOfOwner(tx, a.Owner)
}

func (c *Console) rankOfOwner(tx storage.Tx, id string) (frame.Role, error) {
	_, p, err := c.Identity.Person.Find(tx, id)
	if errors.Is(err, person.ErrNoPerson) || err == nil && p.State != person.Active {
		return frame.Nobody, nil
	}
	if err != nil {
		return frame.Nobody, err
	}
	return c.frame.RoleOf(p.PartitionName(), p.Groups), nil
}

// alertState says how an alert is.
func alertState(a *alert.Alert) page.Cell {
	cell := page.Cell{Text: page.Say("console.alert.works"), Kind: "good"}
	switch {
	case a.Stopped:
		cell = page.Cell{Text: page.Say("console.alert.stopped"), Kind: "bad"}
	case a.Paused:
		cell = page.Cell{Text: page.Say("console.alert.paused"), Kind: "plain"}
	case a.Problem != "":
		cell = page.Cell{Text: page.Say("console.alert.failed"), Kind: "bad", Note: a.Problem}
	}
	return cell
}

// alertTo says where an alert goes.
func alertTo(a *alert.Alert, owner string) page.Cell {
	cell := page.Cell{Text: page.Say("console.alert.to." + string(a.To)), Note: a.Host}
	if a.To == alert.Mail {
		cell.Note = owner
	}
	return cell
}

func (c *Console) showAlerts(v *frame.Visit) (*page.Console, error) {
	var list []alert.Alert
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if list, err = c.Alerts.List(tx); err != nil {
			return err
		}
		var ids []string
		for i := range list {
			ids = append(ids, list[i].Owner)
		}
		names, err = c.Manage.Names(tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &page.Table{Label: page.Say("console.alerts.title"), Columns: []string{"console.column.name", "console.column.to", "console.column.fired", "console.column.events", "console.column.state"}}
	for i := range list {
		a := &list[i]
		t.Rows = append(t.Rows, page.TableRow{URL: alertPath(a.ID), Cells: []page.Cell{
			{Name: a.Name}, alertTo(a, names[a.Owner]), timeCell(a.Fired), {Name: strconv.FormatInt(a.Told, 10)}, alertState(a),
		}})
	}
	out := &page.Console{
		Title: page.Say("console.alerts.title"), Lead: page.Say("console.alerts.text"), Up: upToEvents(),
		Parts: []page.ConsolePart{{Table: t}},
	}
	if len(list) == 0 {
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.alerts.none"), Next: &page.Action{Label: "console.events.title", URL: frame.Root + "/events"}}
	}
	return out, nil
}

// upToEvents leads to the events.
func upToEvents() *page.Up {
	return &page.Up{Label: page.Say("console.events.title"), URL: frame.Root + "/events"}
}

// timeCell is a time, or a dash for none.
func timeCell(t time.Time) page.Cell {
	if t.IsZero() {
		return frame.OrNone("")
	}
	return page.Cell{Text: page.Say("console.time", "time", t)}
}

func (c *Console) showAlert(v *frame.Visit) (*page.Console, error) {
	a := shownAlert(v)
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		names, err = c.Manage.Names(tx, []string{a.Owner, a.Filter.Person})
		return err
	})
	if err != nil {
		return nil, err
	}
	fact := func(label string, cell page.Cell) page.ConsoleFact {
		return page.ConsoleFact{Label: label, Cells: []page.Cell{cell}}
	}
	facts := []page.ConsoleFact{
		fact("console.column.state", alertState(a)), fact("console.column.to", alertTo(a, names[a.Owner])), fact("console.field.owner", personCell(names, a.Owner, a.Owner)),
		fact("console.column.created", timeCell(a.Made)), fact("console.column.fired", timeCell(a.Fired)), fact("console.column.events", page.Cell{Name: strconv.FormatInt(a.Told, 10)}),
	}
	if a.Waiting > 0 {
		facts = append(facts, fact("console.field.waiting", page.Cell{Name: strconv.FormatInt(a.Waiting, 10)}))
	}
	if a.Tries > 0 {
		facts = append(facts, fact("console.column.attempts", page.Cell{Name: strconv.Itoa(a.Tries)}))
	}
	return &page.Console{
		Name: a.Name, Up: &page.Up{Label: page.Say("console.alerts.title"), URL: frame.Root + alertsPath}, Actions: v.Buttons(),
		Parts: []page.ConsolePart{
			{Facts: facts},
			{ID: "filter", Title: page.Say("console.alert.filter"), Facts: filterFacts(&a.Filter, names), Actions: []page.Action{{Label: "console.event.more", URL: EventsOf(a.Filter)}}},
		},
	}, nil
}

// filterFacts say what an alert selects.
func filterFacts(f *alert.Filter, names map[string]string) (facts []page.ConsoleFact) {
	add := func(label string, cell page.Cell) {
		if cell.Name != "" {
			facts = append(facts, page.ConsoleFact{Label: label, Cells: []page.Cell{cell}})
		}
	}
	var kinds []page.Cell
	for _, kind := range f.Types {
		cell := page.Cell{Text: kindText(kind), Name: kind}
		if strings.HasSuffix(kind, "Event") { // more than the beginning of a type
			cell.Note = kind
		}
		kinds = append(kinds, cell)
	}
	add("console.column.person", personCell(names, f.Person, f.Person))
	if len(kinds) > 0 {
		facts = append(facts, page.ConsoleFact{Label: "console.field.kind", Cells: kinds})
	}
	add("console.column.application", page.Cell{Name: f.Client})
	add("console.column.address", page.Cell{Name: f.Address})
	return facts
}

// filterFields are the parts of a filter that an alert keeps, in the order of the form.
var filterFields = []string{"person", "kind", "client", "address"}

// askAlert asks for what an alert is made of. A new one has the filter that the page of events has shown.
func (c *Console) askAlert(v *frame.Visit) (q frame.Question, err error) {
	values := map[string]string{"to": string(alert.Mail)}
	if !c.Mails {
		values["to"] = string(alert.Webhook)
	}
	if a, ok := v.About.(*alert.Alert); ok {
		f := &a.Filter
		values = map[string]string{"name": a.Name, "person": f.Person, "kind": strings.Join(f.Types, ", "), "client": f.Client, "address": f.Address, "to": string(a.To)}
	} else {
		for _, name := range filterFields {
			values[name] = v.URL.Query().Get(name)
		}
	}
	q.Fields = []page.Field{
		{Name: "name", Label: "console.column.name", Required: true, MaxLength: alert.MaxName, Value: values["name"], Hint: "console.alert.name.hint"},
		{Name: "person", Label: "console.column.person", Hint: "console.events.person.hint", Value: values["person"]},
		{Name: "kind", Hint: "console.events.kind.hint", Value: values["kind"]},
		{Name: "client", Label: "console.column.application", Value: values["client"]},
		{Name: "address", Label: "console.column.address", Value: values["address"]},
		{Name: "to", Type: "select", Label: "console.column.to", Value: values["to"], Options: []page.Option{{Value: string(alert.Mail), Label: "console.alert.to.mail"}, {Value: string(alert.Webhook), Label: "console.alert.to.webhook"}}},
		{Name: "url", Label: "console.field.webhook_url", Hint: "console.alert.url.hint"},
	}
	return q, nil
}

// draftOf reads the form of an alert.
func (c *Console) draftOf(v *frame.Visit, in url.Values) (d alert.Draft, err error) {
	text := func(name string) string { return strings.TrimSpace(in.Get(name)) }
	d = alert.Draft{Name: text("name"), To: alert.Kind(in.Get("to")), URL: text("url"), Filter: alert.Filter{Client: text("client"), Address: text("address"), Types: frame.Lines(in.Get("kind"))}}
	who := text("person")
	if who == "" {
		return d, nil
	}
	p, err := c.personOf(v, who)
	switch {
	case err == nil:
		d.Filter.Person = p.ID
	case errors.Is(err, person.ErrNoPerson) && person.IsID(who):
		d.Filter.Person, err = who, nil // a removed person can still have events
	case errors.Is(err, person.ErrNoPerson):
		err = &frame.Problem{Field: "person", Key: "console.problem.no_person"}
	}
	return d, err
}

// alertProblem is what an administrator is told of an alert that is not kept or not sent.
func alertProblem(err error) error {
	invalid, untaken := new(alert.InvalidError), new(alert.PostError)
	switch {
	case errors.As(err, &untaken):
		return &frame.Problem{Key: "console.problem.webhook", Fill: []any{"reason", said(untaken.Cause)}}
	case errors.As(err, &invalid) && invalid.Field == "url":
		return &frame.Problem{Field: "url", Key: "console.problem.webhook", Fill: []any{"reason", said(invalid.Cause)}}
	case errors.As(err, &invalid):
		return &frame.Problem{Field: invalid.Field, Key: "console.problem.value"}
	case errors.Is(err, alert.ErrEverything):
		return &frame.Problem{Field: "kind", Key: "console.problem.everything"}
	case errors.Is(err, alert.ErrMany):
		return &frame.Problem{Key: "console.problem.many_alerts", Fill: []any{"n", alert.Most}}
	case errors.Is(err, alert.ErrNoMail):
		return &frame.Problem{Field: "to", Key: "console.problem.no_address"}
	case errors.Is(err, alert.ErrGone):
		return &frame.Problem{Key: "console.problem.gone"}
	}
	return err
}

// said is what an administrator reads of why an address does not answer. Which name server was asked is not among it.
func said(err error) string {
	if name := new(net.DNSError); errors.As(err, &name) {
		return name.Name + ": " + name.Err
	}
	return err.Error()
}

func (c *Console) addAlert(v *frame.Visit, in url.Values) (frame.Result, error) {
	d, err := c.draftOf(v, in)
	if err != nil {
		return frame.Result{}, err
	}
	id, secretText, err := c.Alerts.Add(v.Context(), d, by(v))
	if err != nil {
		return frame.Result{}, alertProblem(err)
	}
	return savedAlert(id, d.Name, secretText), nil
}

func (c *Console) editAlert(v *frame.Visit, in url.Values) (frame.Result, error) {
	d, err := c.draftOf(v, in)
	if err != nil {
		return frame.Result{}, err
	}
	secretText, err := c.Alerts.Change(v.Context(), shownAlert(v).ID, d, by(v))
	if err != nil {
		return frame.Result{}, alertProblem(err)
	}
	return savedAlert(shownAlert(v).ID, d.Name, secretText), nil
}

// savedAlert leads to an alert, or shows the new secret of its webhook, the only time that it is shown.
func savedAlert(id, name, secretText string) frame.Result {
	if secretText == "" {
		return frame.Result{To: alertPath(id)}
	}
	return frame.Result{Page: &page.Console{
		Title: page.Say("console.secret.title"), Up: &page.Up{Name: name, URL: alertPath(id)},
		Parts: []page.ConsolePart{{
			Text:   page.Say("console.alert.secret"),
			Secret: &page.Secret{Text: page.Say("console.secret.once"), Value: secretText}, Actions: []page.Action{{Label: "console.secret.kept", URL: alertPath(id)}},
		}},
	}}
}

func (c *Console) testAlert(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, alertProblem(c.Alerts.Test(v.Context(), shownAlert(v).ID, by(v)))
}

func (c *Console) pauseAlert(on bool) func(*frame.Visit, url.Values) (frame.Result, error) {
	return func(v *frame.Visit, _ url.Values) (frame.Result, error) {
		return frame.Result{}, alertProblem(c.Alerts.Pause(v.Context(), shownAlert(v).ID, on, by(v)))
	}
}

func (c *Console) removeAlert(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{To: frame.Root + alertsPath}, alertProblem(c.Alerts.Remove(v.Context(), shownAlert(v).ID, by(v)))
}

// alertActions are the ways from the events to the alerts and the seals.
func (c *Console) alertActions(v *frame.Visit, good bool) []page.Action {
	list := []page.Action{{Label: "console.alerts.title", URL: frame.Root + alertsPath}, {Label: "console.chain.title", URL: frame.Root + chainPath}}
	var params []string
	for _, name := range filterFields {
		params = append(params, name, v.URL.Query().Get(name))
	}
	at := frame.Root + alertsPath + "/" + saveAlert
	if to := frame.With(at, params...); good && to != at && v.Role >= frame.Operator {
		list = append(list, page.Action{Label: "console.act." + saveAlert, URL: to})
	}
	return list
}

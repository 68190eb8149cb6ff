package console

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	alertsPath = "/events/alerts"
	saveAlert  = "save-alert"
)

// alertsScreen lists the alerts: filters of events whose new events are sent to someone.
func (c *Console) alertsScreen() *layout.Screen {
	return &layout.Screen{
		Name: "alerts", Path: alertsPath, Icon: "bell", Role: layout.Viewer, Show: c.showAlerts,
		Acts: []*layout.Act{{Name: saveAlert, Role: layout.Operator, Hidden: true, Ask: c.askAlert, Do: c.addAlert}},
	}
}

// alertScreen is one alert. It belongs to the person who saved it last.
func (c *Console) alertScreen() *layout.Screen {
	is := func(paused bool) func(v *layout.Visit) bool {
		return func(v *layout.Visit) bool { return shownAlert(v).Paused == paused }
	}
	return &layout.Screen{
		Name: "alert", Path: alertsPath + "/{id}", Role: layout.Viewer, Find: c.findAlert, Rank: c.rankOfAlert, Show: c.showAlert,
		Acts: []*layout.Act{
			{Name: "edit-alert", Role: layout.Operator, Own: true, Ask: c.askAlert, Do: c.editAlert},
			{Name: "test-alert", Role: layout.Operator, Own: true, Do: c.testAlert},
			{Name: "pause-alert", Role: layout.Operator, Own: true, When: is(false), Do: c.pauseAlert(true)},
			{Name: "resume-alert", Role: layout.Operator, Own: true, When: is(true), Do: c.pauseAlert(false)},
			{Name: "remove-alert", Role: layout.Operator, Own: true, Danger: true, Do: c.removeAlert},
		},
	}
}

// shownAlert is the alert that the screen is about.
func shownAlert(v *layout.Visit) *alert.Alert { return v.About.(*alert.Alert) }

func alertPath(id string) string { return layout.Root + alertsPath + "/" + url.PathEscape(id) }

// MayAlert reports whether a person may have alerts, as alert.Deps asks.
func (c *Console) MayAlert(tx storage.Tx, _ string, p *person.Record) (bool, error) {
	u, err := c.Units(tx)
	return err == nil && u.Features.AdminConsoleEnabled && c.frame.RoleOf(p.PartitionName(), p.Groups) >= layout.Operator, err
}

// EventsOf returns the address of the page with the events that an alert selects.
func EventsOf(f alert.Filter) string {
	return layout.With(layout.Root+"/events", "person", f.Person, "kind", strings.Join(f.Types, ", "), "client",
		f.Client, "address", f.Address)
}

// by returns the actor of an act on an alert, whose role is checked again in the transaction, also for an alert of
// their own.
func by(v *layout.Visit) audit.Actor {
	a := v.Actor()
	if a.Check == nil {
		a.Check = v.Recheck
	}
	return a
}

func (c *Console) findAlert(v *layout.Visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		a, err := c.Alerts.Get(tx, v.PathValue("id"))
		if errors.Is(err, alert.ErrGone) {
			return webflow.NotFound()
		}
		if err != nil {
			return err
		}
		v.About, v.Called, v.Self = &a, a.Name, a.Owner == v.Me()
		v.Rank, err = c.rankOfOwner(tx, a.Owner)
		return err
	})
}

// rankOfAlert returns the role of the owner of the alert.
func (c *Console) rankOfAlert(v *layout.Visit, tx storage.Tx) (layout.Role, error) {
	a, err := c.Alerts.Get(tx, v.PathValue("id"))
	if errors.Is(err, alert.ErrGone) { // it has just been removed
		return layout.Nobody, nil
	}
	if err != nil {
		return layout.Nobody, err
	}
	return c.rankOfOwner(tx, a.Owner)
}

func (c *Console) rankOfOwner(tx storage.Tx, id string) (layout.Role, error) {
	_, p, err := c.Identity.Person.Find(tx, id)
	if errors.Is(err, person.ErrNoPerson) || err == nil && p.State != person.Active {
		return layout.Nobody, nil
	}
	if err != nil {
		return layout.Nobody, err
	}
	return c.frame.RoleOf(p.PartitionName(), p.Groups), nil
}

// alertState shows whether an alert works, is paused, has stopped or could not be sent.
func alertState(a *alert.Alert) web.Cell {
	cell := web.Cell{Text: web.Say("console.alert.works"), Kind: "good"}
	switch {
	case a.Stopped:
		cell = web.Cell{Text: web.Say("console.alert.stopped"), Kind: "bad"}
	case a.Paused:
		cell = web.Cell{Text: web.Say("console.alert.paused"), Kind: "plain"}
	case a.Problem != "":
		cell = web.Cell{Text: web.Say("console.alert.failed"), Kind: "bad", Hint: web.Said(a.Problem)}
	}
	return cell
}

// alertTo shows the recipient of an alert.
func alertTo(a *alert.Alert, owner string) web.Cell {
	cell := web.Cell{Text: web.Say("console.alert.to." + string(a.To)), Note: a.Host}
	if a.To == alert.Mail {
		cell.Note = owner
	}
	return cell
}

func (c *Console) showAlerts(v *layout.Visit) (*web.Console, error) {
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
	t := &web.Table{
		Label:   web.Say("console.alerts.title"),
		Columns: []string{"console.column.name", "console.column.to", "console.column.fired", "console.column.events", "console.column.state"},
	}
	for i := range list {
		a := &list[i]
		t.Rows = append(t.Rows, web.TableRow{URL: alertPath(a.ID), Cells: []web.Cell{
			{Name: a.Name}, alertTo(a, names[a.Owner]), timeCell(a.Fired), {Name: strconv.FormatInt(a.Told, 10)}, alertState(a),
		}})
	}
	out := &web.Console{
		Title: web.Say("console.alerts.title"), Lead: web.Say("console.alerts.text"),
		Parts: []web.ConsolePart{{Table: t}},
	}
	if len(list) == 0 {
		out.Parts[0].Empty = &web.Empty{
			Text: web.Say("console.alerts.none"),
			Next: &web.Action{Label: "console.events.title", URL: layout.Root + "/events"},
		}
	}
	return out, nil
}

// upToEvents returns the link up to the events.
func upToEvents() *web.Up {
	return &web.Up{Label: web.Say("console.events.title"), URL: layout.Root + "/events"}
}

// timeCell is a time, or a dash for none.
func timeCell(t time.Time) web.Cell {
	if t.IsZero() {
		return layout.OrNone("")
	}
	return web.Cell{Text: web.Say("console.time", "time", t)}
}

func (c *Console) showAlert(v *layout.Visit) (*web.Console, error) {
	a := shownAlert(v)
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		names, err = c.Manage.Names(tx, []string{a.Owner, a.Filter.Person})
		return err
	})
	if err != nil {
		return nil, err
	}
	fact := func(label string, cell web.Cell) web.ConsoleFact {
		return web.ConsoleFact{Label: label, Cells: []web.Cell{cell}}
	}
	facts := []web.ConsoleFact{
		fact("console.column.state", alertState(a)), fact("console.column.to", alertTo(a, names[a.Owner])),
		fact("console.field.owner", personCell(names, a.Owner, a.Owner)),
		fact("console.column.created", timeCell(a.Made)), fact("console.column.fired", timeCell(a.Fired)),
		fact("console.column.events", web.Cell{Name: strconv.FormatInt(a.Told, 10)}),
	}
	if a.Waiting > 0 {
		facts = append(facts, fact("console.field.waiting", web.Cell{Name: strconv.FormatInt(a.Waiting, 10)}))
	}
	if a.Tries > 0 {
		facts = append(facts, fact("console.column.attempts", web.Cell{Name: strconv.Itoa(a.Tries)}))
	}
	return &web.Console{
		Name: a.Name, Up: &web.Up{Label: web.Say("console.alerts.title"), URL: layout.Root + alertsPath}, Actions: v.Buttons(),
		Parts: []web.ConsolePart{
			{Facts: facts},
			{
				ID: "filter", Title: web.Say("console.alert.filter"), Facts: filterFacts(&a.Filter, names),
				Actions: []web.Action{{Label: "console.event.more", URL: EventsOf(a.Filter)}},
			},
		},
	}, nil
}

// filterFacts describe the filter of an alert.
func filterFacts(f *alert.Filter, names map[string]string) (facts []web.ConsoleFact) {
	add := func(label string, cell web.Cell) {
		if cell.Name != "" {
			facts = append(facts, web.ConsoleFact{Label: label, Cells: []web.Cell{cell}})
		}
	}
	var kinds []web.Cell
	for _, kind := range f.Types {
		cell := web.Cell{Text: kindText(kind), Name: kind}
		if strings.HasSuffix(kind, "Event") { // a whole type, not the beginning of one
			cell.Note = kind
		}
		kinds = append(kinds, cell)
	}
	add("console.column.person", personCell(names, f.Person, f.Person))
	if len(kinds) > 0 {
		facts = append(facts, web.ConsoleFact{Label: "console.field.kind", Cells: kinds})
	}
	add("console.column.application", web.Cell{Name: f.Client})
	add("console.column.address", web.Cell{Name: f.Address})
	return facts
}

// filterFields are the parts of a filter that an alert keeps, in the order of the form.
var filterFields = []string{"person", "kind", "client", "address"}

// askAlert asks for the recipient and filter of an alert. A new one starts with the filter of the page of events.
func (c *Console) askAlert(v *layout.Visit) (q layout.Question, err error) {
	values := map[string]string{"to": string(alert.Mail)}
	if !c.Mails {
		values["to"] = string(alert.Webhook)
	}
	if a, ok := v.About.(*alert.Alert); ok {
		f := &a.Filter
		values = map[string]string{
			"name": a.Name, "person": f.Person, "kind": strings.Join(f.Types, ", "), "client": f.Client,
			"address": f.Address, "to": string(a.To),
		}
	} else {
		for _, name := range filterFields {
			values[name] = v.URL.Query().Get(name)
		}
	}
	to := web.Field{
		Name: "to", Type: "select", Label: "console.column.to", Value: values["to"],
		Options: []web.Option{
			{Value: string(alert.Mail), Label: "console.alert.to.mail"},
			{Value: string(alert.Webhook), Label: "console.alert.to.webhook"},
		},
	}
	if !c.offersMail(v) {
		to.Hint, to.Options = "console.alert.no_mail", to.Options[1:]
	}
	if v.Called != "" {
		q.Submit = "console.save"
	}
	q.Fields = []web.Field{
		{
			Name: "name", Label: "console.column.name", Required: true, MaxLength: alert.MaxName, Value: values["name"],
			Hint: "console.alert.name.hint",
		},
		{Name: "person", Label: "console.column.person", Hint: "console.events.person.hint", Value: values["person"]},
		{Name: "kind", Hint: "console.events.kind.hint", Value: values["kind"]},
		{Name: "client", Label: "console.column.application", Value: values["client"]},
		{Name: "address", Label: "console.column.address", Value: values["address"]},
		to,
		{Name: "url", Label: "console.field.webhook_url", Hint: "console.alert.url.hint"},
	}
	return q, nil
}

// offersMail reports whether an alert can go to an e-mail address. One that already does can stay so, even without a
// mail server.
func (c *Console) offersMail(v *layout.Visit) bool {
	a, ok := v.About.(*alert.Alert)
	return c.Mails || ok && a.To == alert.Mail
}

// draftOf reads the form of an alert.
func (c *Console) draftOf(v *layout.Visit, in url.Values) (d alert.Draft, err error) {
	text := func(name string) string { return strings.TrimSpace(in.Get(name)) }
	d = alert.Draft{
		Name: text("name"), To: alert.Kind(in.Get("to")), URL: text("url"),
		Filter: alert.Filter{Client: text("client"), Address: text("address"), Types: layout.Lines(in.Get("kind"))},
	}
	if d.To == alert.Mail && !c.offersMail(v) {
		return d, &layout.Problem{Field: "to", Key: "console.alert.no_mail"}
	}
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
		err = &layout.Problem{Field: "person", Key: "console.problem.no_person"}
	}
	return d, err
}

// alertProblem returns the message to an administrator about an alert that could not be saved or sent.
func alertProblem(err error) error {
	invalid, unsent := new(alert.InvalidError), new(alert.PostError)
	switch {
	case errors.As(err, &unsent):
		return &layout.Problem{Key: "console.problem.webhook", Fill: []any{"reason", said(unsent.Cause)}}
	case errors.Is(err, alert.ErrURL):
		return &layout.Problem{Field: "url", Key: "console.problem.webhook_url"}
	case errors.As(err, &invalid) && invalid.Field == "url":
		return &layout.Problem{Field: "url", Key: "console.problem.webhook", Fill: []any{"reason", said(invalid.Cause)}}
	case errors.As(err, &invalid):
		return &layout.Problem{Field: invalid.Field, Key: "console.problem.value"}
	case errors.Is(err, alert.ErrEverything):
		return &layout.Problem{Field: "kind", Key: "console.problem.everything"}
	case errors.Is(err, alert.ErrMany):
		return &layout.Problem{Key: "console.problem.many_alerts", Fill: []any{"n", alert.Most}}
	case errors.Is(err, alert.ErrNoMail):
		return &layout.Problem{Field: "to", Key: "console.problem.no_address"}
	case errors.Is(err, alert.ErrGone):
		return &layout.Problem{Key: "console.problem.gone"}
	}
	return err
}

// said returns the reason why an address does not answer, for administrators. It leaves out the name server.
func said(err error) web.Foreign {
	if name := new(net.DNSError); errors.As(err, &name) {
		return web.Foreign(name.Name + ": " + name.Err)
	}
	return web.Foreign(err.Error())
}

func (c *Console) addAlert(v *layout.Visit, in url.Values) (layout.Result, error) {
	d, err := c.draftOf(v, in)
	if err != nil {
		return layout.Result{}, err
	}
	id, secretText, err := c.Alerts.Add(v.Context(), d, by(v))
	if err != nil {
		return layout.Result{}, alertProblem(err)
	}
	return savedAlert(id, d.Name, secretText), nil
}

func (c *Console) editAlert(v *layout.Visit, in url.Values) (layout.Result, error) {
	d, err := c.draftOf(v, in)
	if err != nil {
		return layout.Result{}, err
	}
	secretText, err := c.Alerts.Change(v.Context(), shownAlert(v).ID, d, by(v))
	if err != nil {
		return layout.Result{}, alertProblem(err)
	}
	return savedAlert(shownAlert(v).ID, d.Name, secretText), nil
}

// savedAlert leads to an alert, or shows the new secret of its webhook, which is shown only this once.
func savedAlert(id, name, secretText string) layout.Result {
	if secretText == "" {
		return layout.Result{To: alertPath(id)}
	}
	return layout.Result{Page: &web.Console{
		Title: web.Say("console.secret.title"), Up: &web.Up{Name: name, URL: alertPath(id)},
		Parts: []web.ConsolePart{{
			Text:    web.Say("console.alert.secret"),
			Secret:  &web.Secret{Text: web.Say("console.secret.once"), Value: secretText},
			Actions: []web.Action{{Label: "console.secret.kept", URL: alertPath(id)}},
		}},
	}}
}

func (c *Console) testAlert(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, alertProblem(c.Alerts.Test(v.Context(), shownAlert(v).ID, by(v)))
}

func (c *Console) pauseAlert(on bool) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, _ url.Values) (layout.Result, error) {
		out := layout.Switched(shownAlert(v).Paused, on, "pause-alert", "resume-alert")
		return out, alertProblem(c.Alerts.Pause(v.Context(), shownAlert(v).ID, on, by(v)))
	}
}

func (c *Console) removeAlert(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{To: layout.Root + alertsPath}, alertProblem(c.Alerts.Remove(v.Context(), shownAlert(v).ID, by(v)))
}

// alertActions returns the links from the events to their seals and, with a valid filter, to a new alert.
func (c *Console) alertActions(v *layout.Visit, good bool) []web.Action {
	list := []web.Action{
		{Label: "console.chain.title", URL: layout.Root + chainPath},
	}
	var params []string
	for _, name := range filterFields {
		params = append(params, name, v.URL.Query().Get(name))
	}
	at := layout.Root + alertsPath + "/" + saveAlert
	if to := layout.With(at, params...); good && to != at && v.Role >= layout.Operator {
		list = append(list, web.Action{Label: "console.act." + saveAlert, URL: to})
	}
	return list
}

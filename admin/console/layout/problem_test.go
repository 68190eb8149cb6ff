package layout_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// TestSettingProblem: a refusal of the settings becomes the message of its code, whatever its status is and whether it
// names a member.
func TestSettingProblem(t *testing.T) {
	t.Parallel()
	long := coded.Errorf("length", "max", "has more than %d characters", 64)
	for name, tt := range map[string]struct {
		err  *jsonapi.Error
		want layout.Problem
	}{
		"at the field": {jsonapi.Invalid(jsonapi.ProblemAt("unit.name", long)), layout.Problem{
			Field: "unit.name", Key: "console.settings_problem.length", Fill: []any{"max", "64"},
		}},
		"at another member": {jsonapi.Invalid(jsonapi.ProblemAt("unit.other", long)), layout.Problem{
			Field: "unit.name", Key: "console.problem.setting_at",
			Fill: []any{"member", "unit.other", "reason", web.Say("console.settings_problem.length", "max", "64")},
		}},
		"without a member": {&jsonapi.Error{
			Status: http.StatusForbidden, Message: "x can be changed by owners",
			Words: coded.Errorf("owners_only", "member", "%s can be changed by owners", "x"),
		}, layout.Problem{Field: "unit.name", Key: "console.settings_problem.owners_only", Fill: []any{"member", "x"}}},
		"without a code": {&jsonapi.Error{Status: http.StatusConflict, Message: "no"}, layout.Problem{
			Field: "unit.name", Key: "console.problem.setting", Fill: []any{"reason", web.Foreign("no")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := layout.SettingProblem("unit.name", tt.err); !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("SettingProblem(%v) = %+v, want %+v", tt.err, *got, tt.want)
			}
		})
	}
}

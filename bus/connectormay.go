package bus

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/musterhq/muster/domain"
)

// administering are the triggers by which an account is administered: they say
// nothing that a connector could have observed.
var administering = []string{"authority", "forget", "set_labels", "set_mode"}

// OperatorsOnly says whether a trigger is one that only an operator may publish:
// it says that a user did something, or it administers the account.
func OperatorsOnly(t *domain.Trigger) bool {
	return t.By == domain.ByUser || slices.Contains(administering, t.Name)
}

// ConnectorMay is nil when a connector that speaks for these sources may publish
// the trigger, else an [*Error] of ErrNotAllowed that says why not. A connector
// tells what happened: it names one of its sources, it does not say that an
// operator did it, and it does not administer the account.
func ConnectorMay(t *domain.Trigger, sources ...string) error {
	refuse := func(format string, args ...any) error {
		return &Error{Code: http.StatusForbidden, Title: "not allowed", Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case !slices.Contains(sources, t.Source):
		return refuse("the source is %q; this connector speaks for %q", t.Source, sources)
	case t.By == domain.ByUser:
		return refuse("a connector cannot say by user; what an operator does needs an operator's token")
	case slices.Contains(administering, t.Name):
		return refuse("%s needs an operator's token", t.Name)
	}
	return nil
}

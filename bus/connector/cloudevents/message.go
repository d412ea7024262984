package cloudevents

import (
	"fmt"
	"strings"

	"github.com/musterhq/muster/domain"
)

// versionHeader is the header that every event in binary mode has.
const versionHeader = headerPrefix + "specversion"

// IsHeader says whether a message's header is an attribute of an event.
func IsHeader(name string) bool {
	return len(name) > len(headerPrefix) && strings.EqualFold(name[:len(headerPrefix)], headerPrefix)
}

// InMessage says whether the headers are those of a message that holds one event,
// in structured or in binary mode.
func InMessage(header map[string][]string) bool {
	for name := range header {
		if strings.EqualFold(name, versionHeader) {
			return true
		}
	}
	return len(header) > 0 && mediaType(header) == TypeStructured
}

// FromMessage reads the one event of a message that [InMessage] has told. The
// error names the attribute or field; an event of another type is an error, too.
func FromMessage(header map[string][]string, body []byte) (domain.Trigger, error) {
	mode := binary
	if mediaType(header) == TypeStructured {
		mode = func(_ map[string][]string, body []byte) (event, error) { return structured(body) }
	}
	e, err := mode(header, body)
	if err == nil {
		err = e.check()
	}
	if err == nil && !e.ours() {
		err = fmt.Errorf("type %q is not one of Muster's; they begin with %s", clip(e.attributes["type"]), TypePrefix)
	}
	if err != nil {
		return domain.Trigger{Expect: domain.NoExpect}, err
	}
	return e.trigger()
}

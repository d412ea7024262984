// Package lifecycle holds the built-in machines, one file each, as data.
//
// It owns what the tables say and nothing of how they are judged. A published
// version of a machine never changes: a better table is a new version, and
// accounts keep the one they were registered with. Every literal is compiled
// when the registry is made; a fault in one is a fault of the program and
// panics.
package lifecycle

import (
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// Default is the machine of an account that names none.
const Default = "whatsapp@2"

// Registry returns a new registry with all built-in machines, to which a user's
// own may be added.
func Registry() *machine.Registry {
	r := machine.NewRegistry()
	for _, d := range Builtin() {
		if err := r.Add(machine.MustCompile(d)); err != nil {
			panic(err)
		}
	}
	if err := r.SetDefault(Default); err != nil {
		panic(err)
	}
	return r
}

// Builtin returns the definitions of all built-in machines.
func Builtin() []machine.Definition {
	return []machine.Definition{WhatsApp1(), WhatsApp2(), WeCom1(), Instance1(), Message1(), Message2(), Conversation1()}
}

func minutes(n int) machine.Duration { return machine.Duration(n) * machine.Duration(time.Minute) }

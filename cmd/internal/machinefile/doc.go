// Package machinefile reads and writes machines as YAML: the form in which a
// user gives a machine of their own (`muster serve --machines DIR`) and in
// which `muster machines show` prints any machine.
//
// It owns the mapping between YAML and [machine.Definition], and the lines of
// faults. What is right and wrong in a machine is decided by machine.Compile
// alone; this package finds the line that each of its faults is about. A file
// holds one machine.
//
// What is wrong with a file is an [*Error] with every fault that was found, each
// with its line. Nothing is half loaded: [LoadDir] gives all machines of a
// folder or an error.
package machinefile

package bus

// Interest says whether anybody who is connected to this server subscribes to
// the subject, wildcards included. It costs a fraction of a publish.
func (s *Server) Interest(subject string) bool {
	return s.srv.GlobalAccount().SubscriptionInterest(subject)
}

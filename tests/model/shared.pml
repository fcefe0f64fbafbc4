/* What the small models share: the states of a batch, promises by name. */

#define PLANNED 1
#define COMMITTED 2
#define ABANDONED 3
#define FAILED 4

/* The search names what broke by the text of its assertion: so a promise is a variable, set just before. */
#define PROMISE(name, holds) name = (holds); assert(name)


//! Counts of what histories got to see, which add up.

macro_rules! sums {
    ($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$what:meta])* $shown:vis $field:ident: $kind:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default)]
        $seen struct $name { $($(#[$what])* $shown $field: $kind,)* }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

pub(in crate::lock) use sums;
